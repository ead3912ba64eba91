"""Patterns of positions: bands around the diagonal, single diagonals, columns and rows of global tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..layout import Grid
from .base import ByIndex, Index, Truth, most, pick, ramp

__all__ = ["Band", "Bands", "Columns", "Diagonals", "Rows"]


@dataclass(frozen=True, eq=False)
class Band(ByIndex):
    """Keys from `lower` to `upper` places after the query's own; None is no limit."""

    lower: int | None
    upper: int | None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return "everything"
        lower, upper = ("" if end is None else f"{end}".replace("-", "−") for end in (self.lower, self.upper))
        return f"band {lower}…{upper}"

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
        step = ramp(most(count), low)
        return torch.where(step < count[:, None], low[:, None] + step, -1)


@dataclass(frozen=True, eq=False)
class Bands(ByIndex):
    """Keys up to so many positions before and after the query's own, per head; −1 is none."""

    reach: Int[Tensor, " heads"]

    def __str__(self) -> str:
        low, high = (int(each) for each in self.reach.aminmax()) if len(self.reach) else (0, 0)
        return f"bands of {low} to {high} to each side".replace("-", "−")

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return (j - grid.position(b, i)).abs() <= self.reach[h]

    def _ends(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> tuple[Index, Index]:
        """First key and number of keys within 0 … m."""
        first, reach = grid.position(b, i), self.reach[h]
        low, high = (first - reach).clamp(0, grid.m), (first + rows + reach).clamp(0, grid.m)
        return low, torch.where(reach >= 0, (high - low).clamp(min=0), 0)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self._ends(grid, b, h, i, rows)[1]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        low, count = self._ends(grid, b, h, i, rows)
        step = ramp(most(count), low)
        return torch.where(step < count[:, None], low[:, None] + step, -1)


@dataclass(frozen=True, eq=False)
class Diagonals(ByIndex):
    """Keys at some distances from the query: entry m − 1 is its own position, the next one the key before it."""

    chosen: Bool[Tensor, "batch heads span"]
    group = 1
    uniform = True

    def __str__(self) -> str:
        return _number(self.chosen, "diagonal")

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        place, span = grid.position(b, i) - j + grid.m - 1, self.chosen.shape[-1]
        inside = (place >= 0) & (place < span)
        return self.chosen[*pick(self.chosen, b, h), place.clamp(0, span - 1)] & inside

    @cached_property
    def _lists(self) -> Int[Tensor, "batch heads width"]:
        return _true_places(self.chosen)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self.chosen.sum(-1)[pick(self.chosen, b, h)]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        places = self._lists[pick(self.chosen, b, h)]
        keys = grid.position(b, i)[:, None] + grid.m - 1 - places
        return torch.where((places >= 0) & (keys >= 0) & (keys < grid.m), keys, -1)


@dataclass(frozen=True, eq=False)
class Columns(ByIndex):
    """Keys that every query has: global tokens, seen from the queries."""

    keys: Bool[Tensor, "batch heads m"]
    uniform = True

    def __str__(self) -> str:
        return _number(self.keys, "column")

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.keys[*pick(self.keys, b, h), j] & (i >= 0)

    @cached_property
    def _lists(self) -> Int[Tensor, "batch heads width"]:
        return _true_places(self.keys)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self.keys.sum(-1)[pick(self.keys, b, h)]

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        return self._lists[pick(self.keys, b, h)]


@dataclass(frozen=True, eq=False)
class Rows(ByIndex):
    """Queries that have every key: global tokens, seen from the keys."""

    queries: Bool[Tensor, "batch heads n"]

    def __str__(self) -> str:
        return _number(self.queries, "row")

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.queries[*pick(self.queries, b, h), i] & (j >= 0)

    def _any(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Bool[Tensor, " count"]:
        group = (i[:, None] + ramp(rows, i)).clamp(max=grid.n - 1)
        first, second = pick(self.queries, b, h)
        return self.queries[first[:, None], second[:, None], group].any(-1)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self._any(grid, b, h, i, rows) * grid.m

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        chosen = self._any(grid, b, h, i, rows)
        return torch.where(chosen[:, None], ramp(grid.m if bool(chosen.any()) else 0, i), -1)


def _true_places(mask: Bool[Tensor, "batch heads size"]) -> Int[Tensor, "batch heads width"]:
    """The indices of what is true, padded with −1 to the longest list."""
    width = most(mask.sum(-1))
    order = mask.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :width]
    return torch.where(mask.gather(-1, order), order, -1)


def _number(mask: Bool[Tensor, "batch heads size"], name: str) -> str:
    """How many there are per head, in words."""
    counts = mask.sum(-1)
    many = most(counts)
    same = bool((counts == many).all())
    return f"{'' if same else 'up to '}{many:,} {name}{'' if many == 1 else 's'}"
