"""The pieces a graph is a union of. Each is a family of complete bipartite parts, stored in far less than n × m.

A piece answers three questions about queries and keys given by index, and never looks at the layout's visibility: that
is the graph's. Its tensors may have size 1 for batch or head, which then stands for all of them. −1 stands for nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .layout import Grid

__all__ = ["Band", "Blocks", "Buckets", "Columns", "Piece", "Rows"]

Index = Int[Tensor, "..."]
Truth = Bool[Tensor, "..."]


@runtime_checkable
class Piece(Protocol):
    """What the graph asks of a piece. `b`, `h`, `i`, `j` are indices that broadcast against each other."""

    @property
    def group(self) -> int:
        """How many neighbouring queries can share one list of keys; 0 if any number of them can."""

    @property
    def uniform(self) -> bool:
        """Whether the queries of such a group have exactly the same keys, not just nearly."""

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        """Whether the piece has the pair."""

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        """At most how many keys `candidates` will name for each of these."""

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        """The keys that any of the `rows` queries from `i` on has, for each i: −1 where there is none, in any order."""

    def mask(self, grid: Grid, queries: slice) -> Truth:
        """The pairs of these queries as a matrix, or something that broadcasts to it."""


class _ByIndex(ABC):
    """A piece whose matrix is made by asking for every pair."""

    group = 0
    uniform = False

    @abstractmethod
    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        """Whether the piece has the pair."""

    def mask(self, grid: Grid, queries: slice) -> Truth:
        b, h, i, j = (torch.arange(size, device=grid.device) for size in grid.shape)
        return self.contains(grid, b[:, None, None, None], h[:, None, None], i[queries, None], j)


def _pick(table: Tensor, b: Index, h: Index) -> tuple[Index, Index]:
    """The indices of (b, h) in a table whose first two sizes may be 1."""
    return b * (table.shape[0] > 1), h * (table.shape[1] > 1)


def _ramp(width: int, like: Tensor) -> Int[Tensor, " width"]:
    return torch.arange(width, device=like.device)


@dataclass(frozen=True, eq=False)
class Band(_ByIndex):
    """Keys from `lower` to `upper` places after the query's own; None is no limit."""

    lower: int | None
    upper: int | None

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        distance = j - grid.position(b, i)
        inside = torch.ones_like(distance, dtype=torch.bool)
        if self.lower is not None:
            inside = inside & (distance >= self.lower)
        if self.upper is not None:
            inside = inside & (distance <= self.upper)
        return inside

    def _ends(self, grid: Grid, b: Index, i: Index, rows: int) -> tuple[Index, Index]:
        """First key and number of keys within 0 … m."""
        first = grid.position(b, i)
        low = torch.zeros_like(first) if self.lower is None else (first + self.lower).clamp(0, grid.m)
        high = torch.full_like(first, grid.m)
        if self.upper is not None:
            high = (first + (rows + self.upper)).clamp(0, grid.m)
        return low, (high - low).clamp(min=0)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self._ends(grid, b, i, rows)[1]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        low, count = self._ends(grid, b, i, rows)
        step = _ramp(_most(count), low)
        return torch.where(step < count[:, None], low[:, None] + step, -1)


@dataclass(frozen=True, eq=False)
class Columns(_ByIndex):
    """Keys that every query has: global tokens, seen from the queries."""

    keys: Bool[Tensor, "batch heads m"]
    uniform = True

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.keys[*_pick(self.keys, b, h), j] & (i >= 0)

    @cached_property
    def _lists(self) -> Int[Tensor, "batch heads width"]:
        return _true_places(self.keys)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self.keys.sum(-1)[_pick(self.keys, b, h)]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        return self._lists[_pick(self.keys, b, h)]


@dataclass(frozen=True, eq=False)
class Rows(_ByIndex):
    """Queries that have every key: global tokens, seen from the keys."""

    queries: Bool[Tensor, "batch heads n"]

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.queries[*_pick(self.queries, b, h), i] & (j >= 0)

    def _any(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Bool[Tensor, " count"]:
        group = (i[:, None] + _ramp(rows, i)).clamp(max=grid.n - 1)
        first, second = _pick(self.queries, b, h)
        return self.queries[first[:, None], second[:, None], group].any(-1)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self._any(grid, b, h, i, rows) * grid.m

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        chosen = self._any(grid, b, h, i, rows)
        return torch.where(chosen[:, None], _ramp(grid.m if bool(chosen.any()) else 0, i), -1)


@dataclass(frozen=True, eq=False)
class Buckets(_ByIndex):
    """Queries and keys that share a bucket: Eq. 6 of the paper. A token may be in several, up to the last size."""

    queries: Int[Tensor, "#batch #heads n slots"]
    keys: Int[Tensor, "#batch #heads m slots2"]
    group = 1

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        of_query = self.queries[*_pick(self.queries, b, h), i]
        of_key = self.keys[*_pick(self.keys, b, h), j]
        # Slot by slot: the comparison of all slots at once would be many times the size of the answer.
        shared: Tensor | None = None
        for one in of_query.unbind(-1):
            for two in of_key.unbind(-1):
                same = (one == two) & (one >= 0)
                shared = same if shared is None else shared | same
        if shared is None:
            return torch.zeros(torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool, device=i.device)
        return shared

    @cached_property
    def _members(self) -> tuple[int, Int[Tensor, "batch heads ends"], Int[Tensor, "batch heads entries"]]:
        """For each bucket its keys: the number of buckets, where each begins, and the keys in the order of buckets."""
        batch, heads, m, slots = self.keys.shape
        flat = self.keys.reshape(batch, heads, m * slots)
        count = int(max(_most(flat + 1), _most(self.queries + 1)))
        filled, order = torch.where(flat < 0, count, flat).sort(dim=-1, stable=True)
        edges = torch.arange(count + 1, device=flat.device).expand(batch, heads, -1).contiguous()
        return count, torch.searchsorted(filled, edges), order // max(slots, 1)

    def _spans(self, b: Index, h: Index, i: Index) -> tuple[Index, Index]:
        """Where the keys of each of a query's buckets begin, and how many they are."""
        count, begins, _ = self._members
        buckets = self.queries[*_pick(self.queries, b, h), i]
        first, second = (index[:, None] for index in _pick(begins, b, h))
        if count == 0:
            return torch.zeros_like(buckets), torch.zeros_like(buckets)
        start = begins[first, second, buckets.clamp(min=0)]
        length = begins[first, second, buckets.clamp(min=0) + 1] - start
        return start, torch.where(buckets >= 0, length, 0)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        _one_row(rows)
        return self._spans(b, h, i)[1].sum(-1)

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        _one_row(rows)
        _, _, members = self._members
        start, length = self._spans(b, h, i)
        step = _ramp(_most(length), i)
        inside = step < length[..., None]
        place = torch.where(inside, start[..., None] + step, 0)
        first, second = (index[:, None, None] for index in _pick(members, b, h))
        return torch.where(inside, members[first, second, place], -1).flatten(1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """For each block of neighbouring queries the blocks of keys it has, as sorted lists one after the other (CSR).

    Blocks of 1 × 1 are explicit pairs. Row (b, h, block) has the key blocks `blocks[offsets[row]:offsets[row + 1]]`,
    out of `key_blocks`.
    """

    offsets: Int[Tensor, " ends"]
    blocks: Int[Tensor, " entries"]
    batch: int
    heads: int
    key_blocks: int
    query_size: int = 1
    key_size: int = 1
    uniform = True

    @staticmethod
    def of_mask(chosen: Bool[Tensor, "batch heads query_blocks key_blocks"], query_size: int, key_size: int) -> Blocks:
        """The blocks that are true in a matrix of blocks."""
        batch, heads, _, key_blocks = chosen.shape
        offsets = torch.nn.functional.pad(chosen.sum(-1).flatten().cumsum(0), (1, 0))
        return Blocks(offsets, chosen.nonzero()[:, 3], batch, heads, key_blocks, query_size, key_size)

    @property
    def group(self) -> int:
        return self.query_size

    @property
    def query_blocks(self) -> int:
        """How many rows each head has."""
        return (len(self.offsets) - 1) // (self.batch * self.heads)

    @cached_property
    def rows(self) -> Int[Tensor, " entries"]:
        """The row of every entry."""
        counts = self.offsets.diff()
        return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)

    @cached_property
    def _entries(self) -> Int[Tensor, " entries"]:
        return self.rows * self.key_blocks + self.blocks

    def _row(self, b: Index, h: Index, i: Index) -> Index:
        head = b * (self.batch > 1) * self.heads + h * (self.heads > 1)
        return head * self.query_blocks + i // self.query_size

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        wanted = self._row(b, h, i) * self.key_blocks + j // self.key_size
        if len(self._entries) == 0:
            return torch.zeros_like(wanted, dtype=torch.bool)
        place = torch.searchsorted(self._entries, wanted.contiguous()).clamp(max=len(self._entries) - 1)
        return self._entries[place] == wanted

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        self._one_block(rows)
        row = self._row(b, h, i)
        return (self.offsets[row + 1] - self.offsets[row]) * self.key_size

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        self._one_block(rows)
        row = self._row(b, h, i)
        start, count = self.offsets[row], self.offsets[row + 1] - self.offsets[row]
        step = _ramp(_most(count), i)
        inside = step < count[:, None]
        if len(self.blocks) == 0:
            return torch.full_like(inside, -1, dtype=torch.long)
        chosen = self.blocks[torch.where(inside, start[:, None] + step, 0)]
        keys = (chosen * self.key_size)[..., None] + _ramp(self.key_size, i)
        return torch.where(inside[..., None] & (keys < grid.m), keys, -1).flatten(1)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        start, stop, _ = queries.indices(grid.n)
        first, last = start // self.query_size, -(-stop // self.query_size)
        chosen = torch.zeros(
            self.batch * self.heads, last - first, self.key_blocks, dtype=torch.bool, device=grid.device
        )
        for head in range(self.batch * self.heads):
            row = head * self.query_blocks + first
            low, high = int(self.offsets[row]), int(self.offsets[row + last - first])
            chosen[head, self.rows[low:high] - row, self.blocks[low:high]] = True
        wide = chosen.repeat_interleave(self.query_size, 1).repeat_interleave(self.key_size, 2)
        skip = start - first * self.query_size
        return wide[:, skip : skip + stop - start, : grid.m].unflatten(0, (self.batch, self.heads))

    def _one_block(self, rows: int) -> None:
        if self.query_size % rows:
            raise ValueError(f"{rows} rows at once do not divide blocks of {self.query_size}")


def _one_row(rows: int) -> None:
    if rows != 1:
        raise ValueError(f"neighbouring queries share no bucket: ask for one row at a time, not {rows}")


def _most(counts: Tensor) -> int:
    return int(counts.amax()) if counts.numel() else 0


def _true_places(mask: Bool[Tensor, "batch heads size"]) -> Int[Tensor, "batch heads width"]:
    """The indices of what is true, padded with −1 to the longest list."""
    width = _most(mask.sum(-1))
    order = mask.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :width]
    return torch.where(mask.gather(-1, order), order, -1)
