"""Predicted graphs as small boolean tiles: some heads, some queries, all keys, written where the caller wants them.

At the lengths that sweeps are run on, writing every pair takes a fraction of a nanosecond, which is less than listing
the few that are predicted. A bucket is a bit of a word: to share one of many takes one operation for each pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from ...core.graph import Graph
from ...core.layout import Grid, Layout
from ...core.pieces import Blocks, Buckets, Columns, Pairs, Piece, Rows
from ...finders import Finder
from ...finders.heads import of_heads
from ...learning.sample import Sample

__all__ = ["GraphMasks", "Masks", "masks_of"]

Tile = Bool[np.ndarray, "heads rows m"]
Array = NDArray[Any]
Paint = Callable[[slice, slice, Tile], None]

# Buckets per word.
BITS = 64
# Values of parameters that can be compared.
PLAIN = (bool, int, float, str, type(None))


class Masks(ABC):
    """The tiles of one prediction, or of several that share their work: `variants` of them."""

    variants: int

    @abstractmethod
    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        """Set what is predicted for these heads (numbered through all sequences) and queries, and clear the rest.

        Variants are asked for in their order, tile by tile. What may not be seen may be set.
        """


def masks_of(finders: Sequence[Finder], sample: Sample) -> list[Masks]:
    """What finders predict, in their order. Neighbours that differ in the dial alone share a pass where that pays."""
    found: list[Masks] = []
    for same, some in groupby(finders, _unturned):
        several = list(some)
        if same is not None:
            found.append(_DialMasks(several, sample))
        else:
            found += [GraphMasks(one(sample.q, sample.k, sample.layout)) for one in several]
    return found


def _unturned(one: Finder) -> tuple[Any, ...] | None:
    """All of a finder but its dial, where one pass over the pairs serves every setting of that; else None."""
    dial = one.dial
    if dial is None or not dial.every_pair:
        return None
    # Tensors and maps are the same only if they are the same objects.
    values = ((each.name, getattr(one, each.name)) for each in fields(one) if each.name != dial.field)
    return type(one), dial, *((name, value if isinstance(value, PLAIN) else id(value)) for name, value in values)


class GraphMasks(Masks):
    """The tiles of a graph."""

    variants = 1

    def __init__(self, graph: Graph) -> None:
        self._paints = [_paint_of(piece, graph.grid) for piece in graph.pieces]

    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        out[...] = False
        self.add(heads, rows, out)

    def add(self, heads: slice, rows: slice, out: Tile) -> None:
        """Set what is in the graph, and leave the rest as it is."""
        for paint in self._paints:
            paint(heads, rows, out)


class _DialMasks(Masks):
    """A finder with several settings of its dial: what every pair needs is computed once, tile by tile."""

    def __init__(self, finders: Sequence[Finder], sample: Sample) -> None:
        self.variants = len(finders)
        one = self._finder = finders[0]
        self._q, self._k = one.compared(sample.q, sample.k)
        grid = sample.layout.of(sample.q, sample.k)
        self._grids = [_of_sequence(grid, b) for b in range(grid.batch)]
        self._heads = grid.heads
        settings = [getattr(each, each.dial.field) for each in finders if each.dial is not None]
        per_head = (torch.as_tensor(each, dtype=torch.float64).expand(grid.heads) for each in settings)
        self._limits = [each.repeat(grid.batch).numpy() for each in per_head]
        self._needed = np.empty(0)

    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        if variant == 0:
            self._needed = np.concatenate([self._tile(b, some, rows) for b, some in self._by_sequence(heads)])
        np.less_equal(self._needed, self._limits[variant][heads, None, None], out=out)

    def _by_sequence(self, heads: slice) -> Iterator[tuple[int, slice]]:
        """Heads numbered through all sequences, as those of each."""
        for b in range(heads.start // self._heads, -(-heads.stop // self._heads)):
            first = b * self._heads
            yield b, slice(max(heads.start - first, 0), min(heads.stop - first, self._heads))

    def _tile(self, b: int, heads: slice, rows: slice) -> Array:
        grid = replace(self._grids[b], heads=heads.stop - heads.start)
        one = of_heads(self._finder, torch.arange(heads.start, heads.stop))
        return one.needed(self._q[b : b + 1, heads], self._k[b : b + 1, heads], grid, rows)[0].numpy()


def _of_sequence(grid: Grid, b: int) -> Grid:
    """The grid of one sequence of a batch."""
    layout = grid.layout

    def one(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[b : b + 1]

    offset = one(layout.query_offset) if isinstance(layout.query_offset, Tensor) else layout.query_offset
    assert offset is not None
    return replace(
        grid, batch=1, layout=Layout(layout.causal, one(layout.key_lengths), offset, one(layout.query_lengths))
    )


class _Scratch:
    """Room for a tile that is used again: asking for new memory time and again is slow."""

    def __init__(self, dtype: Any) -> None:
        self._room = np.empty(0, dtype)

    def like(self, out: Tile) -> Array:
        if len(self._room) < out.size:
            self._room = np.empty(out.size, self._room.dtype)
        return self._room[: out.size].reshape(out.shape)


def _paint_of(piece: Piece, grid: Grid) -> Paint:
    if isinstance(piece, Buckets):
        return _buckets(piece, grid)
    if isinstance(piece, Columns):
        keys = _by_head(piece.keys.numpy(), grid)
        return lambda heads, rows, out: _unite(out, keys[heads, None])
    if isinstance(piece, Rows):
        queries = _by_head(piece.queries.numpy(), grid)
        return lambda heads, rows, out: _unite(out, queries[heads, rows, None])
    if isinstance(piece, Blocks) and piece.query_size == piece.key_size == 1:
        return _pairs(piece.pairs, grid)
    if isinstance(piece, Pairs):
        return _pairs(piece, grid)
    return _any_piece(piece, grid)


def _unite(out: Tile, more: Array) -> None:
    np.logical_or(out, more, out=out)


def _by_head(table: Array, grid: Grid) -> Array:
    """A table with an entry for every head of every sequence, numbered through."""
    size = table.shape[2:]
    return np.broadcast_to(table, (grid.batch, grid.heads, *size)).reshape(grid.batch * grid.heads, *size)


def _buckets(piece: Buckets, grid: Grid) -> Paint:
    count = 1 + max(int(table.amax()) if table.numel() else -1 for table in (piece.queries, piece.keys))
    words: list[tuple[Array, Array, _Scratch]] = []
    for first in range(0, count, BITS):
        kind = np.min_scalar_type((1 << min(BITS, count - first)) - 1)
        of_queries, of_keys = (_words(table, first, kind) for table in (piece.queries, piece.keys))
        words.append((_by_head(of_queries, grid), _by_head(of_keys, grid), _Scratch(kind)))
    found = _Scratch(np.bool_)

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        for of_queries, of_keys, scratch in words:
            shared = np.bitwise_and(of_queries[heads, rows, None], of_keys[heads, None], out=scratch.like(out))
            _unite(out, np.not_equal(shared, 0, out=found.like(out)))

    return paint


def _words(table: Tensor, first: int, kind: Any) -> Array:
    """For each token the set of its buckets from `first` on, as the bits of a word."""
    slots = table.numpy() - first
    inside = (slots >= 0) & (slots < BITS)
    bits = np.where(inside, np.uint64(1) << np.where(inside, slots, 0).astype(np.uint64), np.uint64(0))
    return np.bitwise_or.reduce(bits, -1).astype(kind)


def _pairs(piece: Pairs, grid: Grid) -> Paint:
    offsets, keys, owner = piece.offsets.numpy(), piece.keys.numpy(), piece.rows.numpy()

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        for place, number in enumerate(range(heads.start, heads.stop)):
            head = number // grid.heads * (piece.batch > 1) * piece.heads + number % grid.heads * (piece.heads > 1)
            first = head * piece.n + rows.start
            low, high = offsets[first], offsets[first + rows.stop - rows.start]
            out[place, owner[low:high] - first, keys[low:high]] = True

    return paint


def _any_piece(piece: Piece, grid: Grid) -> Paint:
    """Whatever else there is: its matrix for all heads, kept for as long as the queries are the same."""
    kept: dict[tuple[int, int], Tensor] = {}

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        asked = rows.start, rows.stop
        if asked not in kept:
            kept.clear()
            mask = piece.mask(grid, rows)
            kept[asked] = mask.expand(grid.batch, grid.heads, out.shape[1], grid.m)
        number = torch.arange(heads.start, heads.stop)
        _unite(out, kept[asked][number // grid.heads, number % grid.heads].numpy())

    return paint
