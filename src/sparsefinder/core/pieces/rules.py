"""Rules: a pair is in if a few numbers of its query and its key say so. Evaluated where they are used, never listed.

*Rule*: the product of two codes, vectors of a few whole numbers, is among the best of the row. *Sketched*: the same, of
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

__all__ = ["EveryPair", "Near", "Rule", "Sketched", "apart", "best_of", "lacking", "limits_of"]

# More than any difference of two products, and a limit that nothing exceeds (kMost of the kernels).
FAR, MOST = 1 << 17, 1 << 30


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
    """Pairs whose product of codes is among the best of the row.

    queries, keys: their codes, each from −127 to 127, such that no product of two exceeds 16 bits.
    limits: what a pair may lack to the better ones of its row (`lacking`), −1 for nothing at all; or, not `relative`,
    what its product has to reach.
    grid: where the better ones are looked for: among what a row may see.
    ranks: how many codes each head has, an even number; what comes after them is zero in the queries.
    among: only pairs that share a bucket are looked at, and compared with each other.
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
        reach = torch.full(self.limits.shape, FAR, device=grid.device, dtype=torch.int32)
        for queries in chunks(grid.n if grid.m else 0, grid.batch * grid.heads * grid.m):
            products = self.products(queries).masked_fill(~self._looked_at(grid, queries), -torch.inf)
            reach[:, :, queries] = best_of(products, self.limits[:, :, queries])
        return reach

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
    """Pairs whose product, after both were mapped and rounded, lacks at most `slack` to the better ones of the row.

    q, k: queries and keys; heads may share keys in groups.
    query_maps, key_maps: where products are scores.
    slack, ranks: per head, what a score may lack, and how many dimensions count, none for every pair.
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
        limits = limits_of(units, self.slack)
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


def lacking(products: Float[Tensor, "*rows m"]) -> Float[Tensor, "*rows m"]:
    """What each product of a row lacks to all better ones: the root of the sum of squared differences, rounded up.

    What 1.5-entmax gives weight to lacks less than 1 (of scores that are halved): where many are as good as the best,
    one has to be closer to it than where the best stands alone. Infinite where a product is −∞.
    """
    ordered, places = products.double().sort(-1, descending=True)
    seen = ordered > -torch.inf
    below = torch.where(seen, ordered[..., :1] - ordered, 0.0)
    # Σ (xⱼ − xᵢ)² over all i before j, of whole numbers that floats of 64 bits hold exactly.
    better = torch.arange(1, below.shape[-1] + 1, dtype=torch.float64, device=below.device)
    squares = better * below.square() - 2 * below * below.cumsum(-1) + below.square().cumsum(-1)
    lacks = torch.where(seen, squares.sqrt().ceil(), torch.inf)
    return torch.empty_like(lacks).scatter_(-1, places, lacks)


def best_of(products: Float[Tensor, "*rows m"], limits: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
    """The least product that lacks no more than the limit of its row; `FAR` where none does.

    Only what lacks no more to the best one is looked at. Of that, the least whole number t with Σ (x − t)² ≤ limit²
    over all x > t is found by Newton's method: the root of the sum is convex in t, so no step from below goes too far.
    """
    if products.device.type != "cpu" or not products.numel():
        # Sorting waits for no device.
        inside = lacking(products) <= limits[..., None]
        return products.masked_fill(~inside, FAR).amin(-1).int()
    rows, most = products.flatten(0, -2), limits.flatten().double()
    best = rows.amax(-1, keepdim=True)
    row, key = ((rows >= best - most[:, None].clamp(max=FAR).float()) & (best > -torch.inf)).nonzero(as_tuple=True)
    value = rows[row, key].double()
    reach = best[:, 0].double() - most.clamp(max=FAR)
    # Rows that are not there yet, what of them may exceed it, and by how much.
    left, above = row, value
    while len(left):
        over = (above - reach[left]).clamp_(min=0)
        total, squares = (torch.zeros_like(most).index_add_(0, left, each) for each in (over, over.square()))
        low = squares > most.square()
        step = (squares.sqrt() - most) * squares.sqrt() / total
        # More than rounding takes away, so that no step is too long.
        reach = torch.where(low, reach + (step - 1e-6).ceil().clamp(min=1), reach)
        still = low[left] & (above > reach[left])
        left, above = left[still], above[still]
    least = torch.full_like(most, FAR)
    enough = value >= reach[row]
    return least.scatter_reduce_(0, row[enough], value[enough], "amin").view(limits.shape).int()


def limits_of(units: Float[Tensor, "batch heads n"], slack: Float[Tensor, " heads"]) -> Int[Tensor, "batch heads n"]:
    """What products may lack where scores may lack `slack`, of which units make a whole number."""
    return (units.double() * slack[:, None]).floor().clamp(max=MOST).int()


def apart(q: Float[Tensor, "*shape r"], k: Float[Tensor, "*shape2 r"]) -> Tensor:
    """The squared distance of two points: dimension by dimension, so that every way to compute it rounds alike."""
    total: Tensor | None = None
    for one, two in zip(q.unbind(-1), k.unbind(-1), strict=True):
        square = (one - two).square_()
        total = square if total is None else total.add_(square)
    assert total is not None
    return total
