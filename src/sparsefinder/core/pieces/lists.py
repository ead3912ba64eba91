"""Lists: explicit pairs of queries and keys, and of blocks of them, sorted and one after the other (CSR)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..layout import Grid
from .base import Index, Truth, most, ramp

__all__ = ["Blocks", "Pairs"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Explicit pairs: row (b, h, i) has the keys `keys[offsets[row]:offsets[row + 1]]` of `m`, in order, each once."""

    offsets: Int[Tensor, " ends"]
    keys: Int[Tensor, " entries"]
    batch: int
    heads: int
    m: int
    group = 1
    uniform = True

    @staticmethod
    def of_numbers(numbers: Int[Tensor, " entries"], grid: Grid) -> Pairs:
        """Pairs from their sorted numbers, ((b · heads + h) · n + i) · m + j, each once."""
        m = max(grid.m, 1)
        return Pairs.of_rows(numbers // m, numbers % m, grid.batch, grid.heads, grid.n, m)

    @staticmethod
    def of_rows(
        rows: Int[Tensor, " entries"], keys: Int[Tensor, " entries"], batch: int, heads: int, n: int, m: int
    ) -> Pairs:
        """Pairs from their rows, which are sorted, and their keys, which are sorted within each."""
        ends = torch.arange(batch * heads * n + 1, device=rows.device)
        return Pairs(torch.searchsorted(rows, ends), keys, batch, heads, m)

    @staticmethod
    def of_mask(chosen: Bool[Tensor, "batch heads n m"]) -> Pairs:
        """The pairs that are true in a matrix."""
        batch, heads, _, m = chosen.shape
        offsets = torch.nn.functional.pad(chosen.sum(-1).flatten().cumsum(0), (1, 0))
        return Pairs(offsets, chosen.nonzero()[:, 3], batch, heads, m)

    def __str__(self) -> str:
        return f"{len(self.keys):,} pairs"

    @property
    def n(self) -> int:
        """How many rows each head has."""
        return (len(self.offsets) - 1) // max(1, self.batch * self.heads)

    @cached_property
    def rows(self) -> Int[Tensor, " entries"]:
        """The row of every pair."""
        counts = self.offsets.diff()
        return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)

    @cached_property
    def _numbers(self) -> Int[Tensor, " entries"]:
        return self.rows * self.m + self.keys

    def row(self, b: Index, h: Index, i: Index) -> Index:
        """The number of a row."""
        return (b * (self.batch > 1) * self.heads + h * (self.heads > 1)) * self.n + i

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        wanted = self.row(b, h, i) * self.m + j
        if len(self._numbers) == 0:
            return torch.zeros_like(wanted, dtype=torch.bool)
        place = torch.searchsorted(self._numbers, wanted.contiguous()).clamp(max=len(self._numbers) - 1)
        return self._numbers[place] == wanted

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        _divides(rows, 1)
        row = self.row(b, h, i)
        return self.offsets[row + 1] - self.offsets[row]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        row, count = self.row(b, h, i), self.bound(grid, b, h, i, rows)
        step = ramp(most(count), i)
        inside = step < count[:, None]
        if len(self.keys) == 0:
            return torch.full_like(inside, -1, dtype=torch.long)
        return torch.where(inside, self.keys[torch.where(inside, self.offsets[row][:, None] + step, 0)], -1)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        start, stop, _ = queries.indices(grid.n)
        return self.matrix(start, stop)[..., : grid.m]

    def matrix(self, start: int, stop: int) -> Bool[Tensor, "batch heads count m"]:
        """The pairs of the queries from `start` to before `stop`."""
        heads = self.batch * self.heads
        chosen = torch.zeros(heads, stop - start, self.m, dtype=torch.bool, device=self.keys.device)
        for head in range(heads):
            first = head * self.n + start
            low, high = int(self.offsets[first]), int(self.offsets[first + stop - start])
            chosen[head, self.rows[low:high] - first, self.keys[low:high]] = True
        return chosen.unflatten(0, (self.batch, self.heads))


@dataclass(frozen=True, eq=False)
class Blocks:
    """For each block of neighbouring queries the blocks of keys it has, listed as `Pairs` lists keys.

    Row (b, h, block) has the key blocks `blocks[offsets[row]:offsets[row + 1]]`, out of `key_blocks`.
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
    def of_pairs(pairs: Pairs, query_size: int, key_size: int) -> Blocks:
        """Blocks from pairs of their numbers."""
        return Blocks(pairs.offsets, pairs.keys, pairs.batch, pairs.heads, pairs.m, query_size, key_size)

    @cached_property
    def pairs(self) -> Pairs:
        """Which block of queries has which block of keys, by their numbers."""
        return Pairs(self.offsets, self.blocks, self.batch, self.heads, self.key_blocks)

    def __str__(self) -> str:
        return f"{len(self.blocks):,} blocks of {self.query_size} × {self.key_size}"

    @property
    def group(self) -> int:
        return self.query_size

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.pairs.contains(grid, b, h, i // self.query_size, j // self.key_size)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        _divides(rows, self.query_size)
        return self.pairs.bound(grid, b, h, i // self.query_size, 1) * self.key_size

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        _divides(rows, self.query_size)
        blocks = self.pairs.candidates(grid, b, h, i // self.query_size, 1)[..., None]
        keys = blocks * self.key_size + ramp(self.key_size, i)
        return torch.where((blocks >= 0) & (keys < grid.m), keys, -1).flatten(1)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        start, stop, _ = queries.indices(grid.n)
        first = start // self.query_size
        chosen = self.pairs.matrix(first, -(-stop // self.query_size))
        wide = chosen.repeat_interleave(self.query_size, 2).repeat_interleave(self.key_size, 3)
        skip = start - first * self.query_size
        return wide[:, :, skip : skip + stop - start, : grid.m]


def _divides(rows: int, size: int) -> None:
    if size % rows:
        raise ValueError(f"{rows} rows at once do not divide blocks of {size}")
