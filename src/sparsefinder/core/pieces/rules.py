"""Rules: a pair is in if a few numbers of its query and its key say so. Evaluated where they are used, never listed.

*Rule*: the product of two codes, vectors of a few whole numbers, reaches a limit of the row. *Sketched*: the same, of
codes that are made where they are used too. *Near*: two points are at most so far apart. Whole numbers, and sums in a
fixed order, so that whoever evaluates a rule gets the same pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..chunks import chunks
from ..codes import key_codes, query_codes
from ..layout import Grid
from ..mapping import mapped
from .base import Index, Truth, ramp
from .buckets import Buckets

__all__ = ["EveryPair", "Near", "Rule", "Sketched", "apart"]

# More than any difference of two products.
FAR = 1 << 17


class EveryPair(ABC):
    """A piece that compares every pair to know what it has: asked for a matrix sooner than for lists."""

    group = 1
    uniform = True

    @abstractmethod
    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        """Whether the piece has the pair."""

    @abstractmethod
    def mask(self, grid: Grid, queries: slice) -> Truth:
        """The pairs of these queries as a matrix."""

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return torch.full_like(i, grid.m)

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        keys = ramp(grid.m, i)
        chosen = self.contains(grid, b[:, None], h[:, None], i[:, None], keys)
        return torch.where(chosen, keys, -1)


@dataclass(frozen=True, eq=False)
class Rule(EveryPair):
    """Pairs whose product of codes reaches a limit of the row.

    queries, keys: their codes, each from −127 to 127, such that no product of two exceeds 16 bits.
    limits: so much below the best product of the row, −1 for nothing at all; or, not `relative`, the limit itself.
    grid: where the best of a row is looked for: among what it may see.
    ranks: how many codes each head has, an even number; what comes after them is zero in the queries.
    among: only pairs that share a bucket are looked at, and the best is the best of these.
    """

    queries: Int[Tensor, "batch heads n r"]
    keys: Int[Tensor, "batch heads m r"]
    limits: Int[Tensor, "batch heads n"]
    grid: Grid
    ranks: Int[Tensor, " heads"]
    relative: bool = True
    among: Buckets | None = None

    def __str__(self) -> str:
        return f"rule of {self.queries.shape[-1]} codes" + ("" if self.among is None else f" within {self.among}")

    def products(self, queries: slice) -> Float[Tensor, "batch heads count m"]:
        """The products of some queries with all keys: whole numbers, which floats of 32 bits hold exactly."""
        return self.queries[:, :, queries].float() @ self._keys

    @cached_property
    def _keys(self) -> Float[Tensor, "batch heads r m"]:
        return self.keys.float().mT

    @cached_property
    def reach(self) -> Int[Tensor, "batch heads n"]:
        """What the product of a pair of each row has to reach."""
        if not self.relative:
            return self.limits
        grid = self.grid
        best = torch.full(self.limits.shape, -(1 << 15), device=grid.device, dtype=torch.int32)
        if grid.m:
            for queries in chunks(grid.n, grid.batch * grid.heads * grid.m):
                hidden = ~self._looked_at(grid, queries)
                best[:, :, queries] = self.products(queries).masked_fill(hidden, -(1 << 15)).amax(-1).int()
        return best - self.limits

    def _looked_at(self, grid: Grid, queries: slice) -> Truth:
        b, i, j = (torch.arange(size, device=grid.device) for size in (grid.batch, grid.n, grid.m))
        seen = grid.visible(b[:, None, None, None], i[queries, None], j)
        return seen if self.among is None else seen & self.among.mask(grid, queries)

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        product = torch.zeros(torch.broadcast_shapes(b.shape, h.shape, i.shape, j.shape), device=j.device).int()
        for d in range(self.queries.shape[-1]):
            product += self.queries[b, h, i, d].int() * self.keys[b, h, j, d]
        chosen = product >= self.reach[b, h, i]
        return chosen if self.among is None else chosen & self.among.contains(grid, b, h, i, j)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        chosen = self.products(queries) >= self.reach[:, :, queries, None]
        return chosen if self.among is None else chosen & self.among.mask(grid, queries)


@dataclass(frozen=True, eq=False)
class Sketched(EveryPair):
    """Pairs whose product, after both were mapped and rounded, is at most `slack` below the best of the row.

    q, k: queries and keys; heads may share keys in groups.
    query_maps, key_maps: where products are scores.
    slack, ranks: per head, a difference of scores, and how many dimensions count, none for every pair.
    """

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch kv_heads m d"]
    query_maps: Float[Tensor, "heads d r"]
    key_maps: Float[Tensor, "heads d r"]
    slack: Float[Tensor, " heads"]
    ranks: Int[Tensor, " heads"]
    grid: Grid
    among: Buckets | None = None

    def __str__(self) -> str:
        ranks = self.ranks.unique().tolist()
        numbers = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}" if ranks else "no"
        return f"scores of rank {numbers}" + ("" if self.among is None else f" within {self.among}")

    @cached_property
    def rule(self) -> Rule:
        """The rule of the codes."""
        inside = torch.arange(self.query_maps.shape[-1], device=self.q.device) < self.ranks[:, None, None]
        queries, units = query_codes(torch.where(inside, mapped(self.q, self.query_maps), 0.0))
        keys = key_codes(torch.where(inside, mapped(self.k, self.key_maps), 0.0))
        limits = (units.double() * self.slack[:, None]).floor().clamp(max=FAR).int()
        return Rule(queries, keys, limits, self.grid, self.ranks + self.ranks % 2, among=self.among)

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.rule.contains(grid, b, h, i, j)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        return self.rule.mask(grid, queries)


@dataclass(frozen=True, eq=False)
class Near(EveryPair):
    """Pairs of points whose squared distance is at most that of the head."""

    queries: Float[Tensor, "batch heads n r"]
    keys: Float[Tensor, "batch heads m r"]
    radii: Float[Tensor, " heads"]

    def __str__(self) -> str:
        return f"near in {self.queries.shape[-1]} dimensions"

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return apart(self.queries[b, h, i], self.keys[b, h, j]) <= self.radii[h]

    def mask(self, grid: Grid, queries: slice) -> Truth:
        return apart(self.queries[:, :, queries, None], self.keys[:, :, None]) <= self.radii[:, None, None]


def apart(q: Float[Tensor, "*shape r"], k: Float[Tensor, "*shape2 r"]) -> Tensor:
    """The squared distance of two points: dimension by dimension, so that every way to compute it rounds alike."""
    total: Tensor | None = None
    for one, two in zip(q.unbind(-1), k.unbind(-1), strict=True):
        square = (one - two).square_()
        total = square if total is None else total.add_(square)
    assert total is not None
    return total
