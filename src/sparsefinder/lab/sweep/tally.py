"""Counts of predicted, gold and hit pairs for every window at once, exactly those of the union with each window.

A window adds the pairs at most so many places apart. So the pairs of a prediction are counted by how far apart they
are, once, and a window's counts are sums of those: pairs outside the window, and all that is visible inside. The same
for gold pairs that were missed; a query is complete as soon as the window reaches the farthest that it misses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ...core.layout import Grid
from ...finders import GlobalTokens
from ...learning.sample import Sample
from .masks import GraphMasks, Masks

__all__ = ["GoldPairs", "Tally", "tally"]

Array = NDArray[Any]

# Queries per tile at most: so that a count over all of them fits into 8 bits, which is what makes counting cheap, and
# so that a tile of words stays in the cache.
ROWS, FEW_ROWS = 255, 128
# Pairs per tile, about: more than one head only where they are short.
PAIRS = 1 << 16


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts for each variant, number of global tokens, window and (sample, head); as in `metrics.Counts`."""

    visible: Int[np.ndarray, "samples heads"]
    gold: Int[np.ndarray, "samples heads"]
    queries: Int[np.ndarray, "samples heads"]
    predicted: Int[np.ndarray, "variants globals windows samples heads"]
    hits: Int[np.ndarray, "variants globals windows samples heads"]
    complete: Int[np.ndarray, "variants globals windows samples heads"]
    empty: Int[np.ndarray, "variants globals windows samples heads"]


class GoldPairs:
    """The gold pairs of a batch and what follows from them and the layout alone: made once, for all predictions."""

    def __init__(self, sample: Sample, windows: Sequence[int], global_tokens: Sequence[int]) -> None:
        self.sample, self.graph = sample, sample.gold
        grid = self.graph.grid
        self.grid = grid
        self.global_tokens = sorted(global_tokens)
        self.global_graphs = [GlobalTokens(count)(sample.q, sample.k, sample.layout) for count in self.global_tokens]
        # How far a window reaches to each side; −1 if it is none.
        self.reach = np.array([size // 2 if size else -1 for size in windows], np.int64)
        pairs = self.graph.pairs()
        self.rows, self.keys, self.ends = pairs.rows.numpy(), pairs.keys.numpy(), pairs.offsets.numpy()
        self.away = np.abs(self.keys - self._position[self._sample_of(self.rows), self.rows % max(grid.n, 1)])
        self.farthest = int(self.away.max(initial=0))

    def _sample_of(self, rows: Array) -> Array:
        return rows // max(self.grid.heads * self.grid.n, 1)

    @cached_property
    def _position(self) -> Int[np.ndarray, "batch n"]:
        """Where each query stands among the keys."""
        b, i = torch.arange(self.grid.batch)[:, None], torch.arange(self.grid.n)
        return self.grid.position(b, i).expand(self.grid.batch, -1).numpy()

    @cached_property
    def _degrees(self) -> Int[np.ndarray, "batch n"]:
        """How many keys each query may see: always the first ones."""
        return self.grid.degrees().numpy()

    @cached_property
    def starts(self) -> Int[np.ndarray, " batch"]:
        """Where the first query of each sequence stands."""
        offset = self.grid.layout.query_offset
        return np.broadcast_to(np.asarray(offset), self.grid.batch).astype(np.int64)

    @cached_property
    def _seen(self) -> Bool[np.ndarray, "batch n m"] | None:
        """The pairs that may be seen; None if all may."""
        seen = np.arange(self.grid.m) < self._degrees[..., None]
        return None if seen.all() else seen

    def hide(self, heads: slice, rows: slice, out: Bool[np.ndarray, "heads rows m"]) -> None:
        """Clear what may not be seen."""
        if self._seen is not None:
            samples = np.arange(heads.start, heads.stop) // self.grid.heads
            np.logical_and(out, self._seen[samples, rows], out=out)

    @cached_property
    def queries(self) -> Int[np.ndarray, " batch"]:
        return (self._degrees > 0).sum(-1)

    @cached_property
    def visible(self) -> Int[np.ndarray, " batch"]:
        return self._degrees.sum(-1)

    @cached_property
    def within(self) -> Int[np.ndarray, "windows batch"]:
        """How many of the pairs that may be seen are inside each window."""
        counts = []
        for reach in self.reach:
            low = np.maximum(self._position - reach, 0)
            high = np.minimum(self._position + reach + 1, self._degrees)
            counts.append(np.maximum(high - low, 0).sum(-1) if reach >= 0 else np.zeros(len(low), np.int64))
        return np.stack(counts) if counts else np.zeros((0, self.grid.batch), np.int64)

    @cached_property
    def outside(self) -> Bool[np.ndarray, "windows batch n"]:
        """The queries that may see something, but nothing inside the window."""
        nearest = np.maximum(np.maximum(-self._position, self._position - self._degrees + 1), 0)
        return (nearest > self.reach[:, None, None]) & (self._degrees > 0)

    @cached_property
    def asking(self) -> tuple[Array, Array]:
        """The rows that have gold pairs, and where the pairs of each begin."""
        rows = np.flatnonzero(np.diff(self.ends))
        return rows, self.ends[rows]


def tally(masks: Masks, gold: GoldPairs) -> Tally:
    """Count what is predicted, united with each window and with each number of global tokens."""
    grid, fixed = gold.grid, [GraphMasks(each) for each in gold.global_graphs]
    heads, shape = grid.batch * grid.heads, (masks.variants, len(fixed))
    board = _Board(grid)
    apart = np.zeros((*shape, heads, board.rows + grid.n + grid.m), np.int64)
    hit = np.zeros((*shape, len(gold.keys)), np.bool_)
    # Where the first token is a global one, nobody is left without a key.
    filled = np.ones((*shape, heads, grid.n), np.bool_)
    entries = gold.rows * board.width + gold.keys
    for some, queries in board.tiles():
        out = board.tile(some, queries)
        first = some.start * grid.n + queries.start
        low, high = gold.ends[first], gold.ends[first + (len(out) - 1) * grid.n + out.shape[1]]
        places = entries[low:high] + (board.rows - first * board.width)
        for variant in range(masks.variants):
            masks.paint(variant, some, queries, out)
            # From few global tokens to many: the earlier ones are among the later ones.
            for number, more in enumerate(fixed):
                more.add(some, queries, out)
                gold.hide(some, queries, out)
                begin = grid.n - queries.start
                apart[variant, number, some, begin : begin + board.width] += board.diagonals(some, queries)
                hit[variant, number, low:high] = board.cells[places]
                if gold.global_tokens[number] == 0:
                    filled[variant, number, some, queries] = out.any(-1)
    return _counted(gold, apart[..., board.rows :], hit, filled)


class _Board:
    """Room for a tile, laid out so that pairs equally far apart can be added up as columns.

    Every row is preceded by as many empty places as there are rows. Read with rows one place longer than they are, key
    j of row i stands in column `rows` + j − i: pairs on a diagonal stand in one column.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        short = grid.n <= ROWS
        self.rows = grid.n if short else FEW_ROWS
        self.heads = max(1, PAIRS // max(1, grid.n * grid.m)) if short else 1
        self.width = self.rows + grid.m
        # The last row is read beyond its end.
        self.cells = np.zeros(self.heads * self.rows * self.width + self.rows, np.bool_)

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        """Heads, numbered through all sequences, and queries; several heads only with all of their queries."""
        n, heads = self.grid.n, self.grid.batch * self.grid.heads
        for start in range(0, n, max(1, self.rows)):
            for first in range(0, heads, self.heads):
                yield slice(first, min(first + self.heads, heads)), slice(start, min(start + self.rows, n))

    def tile(self, heads: slice, queries: slice) -> Bool[np.ndarray, "heads rows m"]:
        """Where a tile is written to."""
        cells = self.cells[: self.heads * self.rows * self.width].reshape(self.heads, self.rows, self.width)
        return cells[: heads.stop - heads.start, : queries.stop - queries.start, self.rows :]

    def diagonals(self, heads: slice, queries: slice) -> Int[np.ndarray, "heads width"]:
        """How many there are on each diagonal of the tile."""
        shape = heads.stop - heads.start, queries.stop - queries.start, self.width
        strides = self.rows * self.width, self.width + 1, 1
        skewed = as_strided(self.cells.view(np.uint8), shape, strides)
        # At most 255 rows of zeros and ones: 8 bits are enough, and are added 32 at a time.
        return np.add.reduce(skewed, 1, np.uint8).astype(np.int64)


def _counted(
    gold: GoldPairs,
    apart: Int[np.ndarray, "variants globals all_heads distances"],
    hit: Bool[np.ndarray, "variants globals pairs"],
    filled: Bool[np.ndarray, "variants globals all_heads n"],
) -> Tally:
    """The counts for each window, from those by distance: `apart` has the pairs with j − i = distance − n."""
    grid, reach = gold.grid, gold.reach
    batch, heads, by_head = grid.batch, grid.heads, (grid.batch, grid.heads)
    # Pairs inside a window are those from one distance to another: the difference of two running sums.
    running = np.concatenate([np.zeros_like(apart[..., :1]), apart.cumsum(-1)], -1)
    middle = np.repeat(gold.starts, heads) + grid.n
    last = apart.shape[-1]
    low, high = (np.clip(middle + end, 0, last) for end in (-reach[:, None], reach[:, None] + 1))
    head = np.arange(batch * heads)
    inside = np.where((reach >= 0)[:, None], running[..., head, high] - running[..., head, low], 0)
    within = np.repeat(gold.within, heads, 1)
    predicted = running[..., None, :, -1] - inside + within
    # Distances of what was missed, and the largest of them in each row; −1 for what was not.
    missed = np.where(hit, -1, gold.away)
    rows, begins = gold.asking
    worst = np.maximum.reduceat(missed, begins, -1) if len(begins) else missed[..., :0]
    beyond = _beyond(missed, gold.rows // max(grid.n, 1), batch * heads, gold)
    incomplete = _beyond(worst, rows // max(grid.n, 1), batch * heads, gold)
    of_gold = np.diff(gold.ends[:: grid.n]) if grid.n else np.zeros(batch * heads, np.int64)
    queries = np.repeat(gold.queries, heads)
    lone = ~filled.reshape(*filled.shape[:2], 1, batch, heads, grid.n) & gold.outside[:, :, None]
    return Tally(
        visible=np.repeat(gold.visible, heads).reshape(by_head),
        gold=of_gold.reshape(by_head),
        queries=queries.reshape(by_head),
        predicted=predicted.reshape(*predicted.shape[:-1], *by_head),
        hits=(of_gold - beyond).reshape(*beyond.shape[:-1], *by_head),
        complete=(queries - incomplete).reshape(*incomplete.shape[:-1], *by_head),
        empty=lone.sum(-1),
    )


def _beyond(
    distances: Int[np.ndarray, "variants globals count"], head: Int[np.ndarray, " count"], heads: int, gold: GoldPairs
) -> Int[np.ndarray, "variants globals windows heads"]:
    """For each window, how many of the distances of each head are larger than its reach."""
    size = gold.farthest + 2
    first = head * size + 1
    counts = np.zeros((*distances.shape[:2], heads, size), np.int64)
    for here in np.ndindex(distances.shape[:2]):
        counts[here] = np.bincount(first + distances[here], minlength=heads * size).reshape(heads, size)
    # All of them, less those up to the reach.
    running = counts.cumsum(-1)
    upto = running[..., np.clip(gold.reach + 1, 0, size - 1)]
    return np.moveaxis(running[..., -1:] - upto, -1, -2)
