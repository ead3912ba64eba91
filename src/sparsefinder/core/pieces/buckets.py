"""Buckets: queries and keys that fell into the same cluster, bin or hash."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from ..layout import Grid
from .base import ByIndex, Index, Truth, most, pick, ramp

__all__ = ["Buckets"]


@dataclass(frozen=True, eq=False)
class Buckets(ByIndex):
    """Queries and keys that share a bucket: Eq. 6 of the paper. A token may be in several, up to the last size."""

    queries: Int[Tensor, "#batch #heads n slots"]
    keys: Int[Tensor, "#batch #heads m slots2"]
    group = 1

    def __str__(self) -> str:
        return f"{self._members[0]:,} buckets"

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        of_query = self.queries[*pick(self.queries, b, h), i]
        of_key = self.keys[*pick(self.keys, b, h), j]
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
        count = int(max(most(flat + 1), most(self.queries + 1)))
        filled, order = torch.where(flat < 0, count, flat).sort(dim=-1, stable=True)
        edges = torch.arange(count + 1, device=flat.device).expand(batch, heads, -1).contiguous()
        return count, torch.searchsorted(filled, edges), order // max(slots, 1)

    def _spans(self, b: Index, h: Index, i: Index) -> tuple[Index, Index]:
        """Where the keys of each of a query's buckets begin, and how many they are."""
        count, begins, _ = self._members
        buckets = self.queries[*pick(self.queries, b, h), i]
        first, second = (index[:, None] for index in pick(begins, b, h))
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
        step = ramp(most(length), i)
        inside = step < length[..., None]
        place = torch.where(inside, start[..., None] + step, 0)
        first, second = (index[:, None, None] for index in pick(members, b, h))
        return torch.where(inside, members[first, second, place], -1).flatten(1)


def _one_row(rows: int) -> None:
    if rows != 1:
        raise ValueError(f"neighbouring queries share no bucket: ask for one row at a time, not {rows}")
