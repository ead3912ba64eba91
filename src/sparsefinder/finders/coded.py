"""Scores of a few numbers of 8 bits, compared within the row: what sketches have in common, whatever their maps.

A method has maps to where products are scores, and keys are worth rounding to whole numbers. What the codes of a row
say of each other, with which setting of a dial a pair is in, and what that costs, is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.chunks import chunks
from ..core.codes import key_codes, query_codes
from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Rule
from ..core.pieces.rules import FAR, best_of, lacking, limits_of
from ..errors import InputError
from ..learning.projection import Projection
from .about import FIT, LEARNED, Dial
from .base import Finder, Keys, Learned, Queries, Settings
from .best import hidden, lowest_of
from .checks import at_least, between, whole
from .reading import per_head
from .shares import shares_of, wanted_of

__all__ = ["SHARE", "SLACK", "WORDS", "Coded", "of_own"]

SLACK, SHARE = Dial("slack", every_pair=True), Dial("share", most=1, every_pair=True)
WORDS = {
    "r": "{} dimension(s)",
    "share": "keeps the best {%} of keys",
    "slack": "keeps scores that lack up to {}",
    "steps": "learned in {} steps",
}
# How many dimensions a head has at the most.
MOST_RANKS = 1 << 16
# What a pair costs in units of one that is looked at with all others, in float32: compared in one of d dimensions of
# 8 bits, and looked at by itself; what a row costs besides; and a pair of those that are all in, most of which can be
# proven to get no weight if they are many. Measured (docs/benchmarks.md).
COMPARED, LOOKED_AT, ROW, PROVEN, LEAST_PROVEN = 0.35, 5.0, 200.0, 0.38, 768


@dataclass(frozen=True, eq=False)
class Coded(Learned):
    """A finder that compares codes: `slack` and `share` of `Sketch`, in `r` dimensions, or in `ranks` of them."""

    r: int | None = field(default=None, metadata=FIT)
    slack: int | float | Float[Tensor, " heads"] | None = None
    share: int | float | Float[Tensor, " heads"] | None = None
    steps: int = field(default=0, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    ranks: Int[Tensor, " heads"] | None = None

    def __post_init__(self) -> None:
        if self.r is not None:
            whole(1, r=self.r)
        whole(0, steps=self.steps)
        if self.ranks is not None:
            whole(0, ranks=self.ranks)
            between(0, self.r or MOST_RANKS, ranks=self.ranks)
        if (self.share is None) == (self.slack is None):
            got = f"share {self.share}, slack {self.slack}"
            raise InputError(f"parameters of {self.about.name}", got, "share or slack among them")
        if self.share is not None:
            between(0, 1, share=self.share)
        if self.slack is not None:
            at_least(0, slack=self.slack)

    @property
    def ready(self) -> bool:
        return self.projection is not None

    @property
    def dial(self) -> Dial:
        return SHARE if self.slack is None else SLACK

    def price(self, density: Float[Tensor, " heads"], m: int, d: int) -> Float[Tensor, " heads"]:
        ranks = torch.full_like(density, self.r or d) if self.ranks is None else self.ranks.to(density)
        compared = ranks * (COMPARED / d + 2 / m) + LOOKED_AT * density + ROW / m
        return torch.where(ranks > 0, compared, PROVEN + ROW / m if m >= LEAST_PROVEN else 1.0)

    @classmethod
    def joined(cls, options: Sequence[Finder], which: Sequence[int]) -> Coded | None:
        """Those of a method are one, with the maps, the rank and the dial of each head, if they have the same dial."""
        several = [one for one in options if isinstance(one, cls)]
        maps = [one.projection for one in several if one.projection is not None]
        if len(maps) < len(options) or any(one.dial is not several[0].dial for one in several):
            return None
        first, head, place = several[0], torch.arange(len(which)), torch.tensor(which)
        ranks, dials = (
            torch.stack([torch.as_tensor(each, dtype=kind).expand(len(which)) for each in values])[place, head]
            for values, kind in (
                ([one._whole_ranks if one.ranks is None else one.ranks for one in several], torch.long),
                ([getattr(one, one.dial.field) for one in several], torch.float64),
            )
        )
        r, both = first.r, maps[0]
        if any(each is not both for each in maps):
            # Maps to fewer dimensions are followed by zeros, which the rank of their head leaves out.
            r = max(each.queries.shape[-1] for each in maps)
            queries, keys = (of_own([getattr(each, side) for each in maps], which) for side in ("queries", "keys"))
            both = Projection(queries, keys)
        return replace(first, r=r, ranks=ranks, projection=both, **{first.dial.field: dials})  # type: ignore[arg-type]

    @property
    def _whole_ranks(self) -> int:
        """How many dimensions there are to look at."""
        assert self.projection is not None
        return self.projection.queries.shape[-1]

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if self.slack is None:
            return Graph(grid, (self._among(Graph.full(grid), q, k),))
        queries, units = query_codes(self._cut(q))
        return Graph(grid, (Rule(queries, key_codes(self._cut(k)), self._below(units), grid, self._ranks(grid)),))

    def among(self, first: Graph, q: Queries, k: Keys) -> Graph:
        """Of pairs that are predicted already, those that score best among them."""
        self._check(first.grid)
        return first & Graph(first.grid, (self._among(first, *self.compared(q, k)),))

    def _among(self, first: Graph, q: Queries, k: Keys) -> Rule:
        """What is best among the pairs of a graph: the limits of rows are found here, not where they are used."""
        grid, (queries, units) = first.grid, query_codes(self._cut(q))
        codes, limits = (queries, key_codes(self._cut(k))), self._below(units)
        products_of = Rule(*codes, limits, grid, self._ranks(grid)).products
        reach = torch.full_like(limits, FAR)
        for some in chunks(grid.n if grid.m else 0, grid.batch * grid.heads * grid.m):
            inside = first.mask(some)
            products = products_of(some).masked_fill_(~inside, -math.inf)
            if self.slack is not None:
                least = best_of(products, limits[:, :, some])
            else:
                assert self.share is not None
                wanted = wanted_of(inside.sum(-1, keepdim=True), self.share, grid)
                least = lowest_of(products, wanted)[..., 0]
            reach[:, :, some] = least.clamp(-FAR, FAR).int()
        return Rule(*codes, reach, grid, self._ranks(grid), relative=False)

    def _below(self, units: Float[Tensor, "batch heads n"]) -> Int[Tensor, "batch heads n"]:
        """What a product may lack to the better ones of its row."""
        slack = torch.as_tensor(0.0 if self.slack is None else self.slack, dtype=torch.float64, device=units.device)
        return limits_of(units, slack.expand(units.shape[1]))

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        codes, units = query_codes(self._cut(q[:, :, queries]))
        seen = grid.degrees()[:, None, queries, None]
        # What a query may see are always the first keys: those that none of these sees need not be compared.
        most = max(int(seen.max()), min(1, grid.m)) if seen.numel() else grid.m
        products = hidden(codes.float() @ key_codes(self._cut(k[:, :, :most])).float().mT, seen)
        if self.slack is None:
            least = shares_of(products, seen)
        else:
            # A quotient may be rounded down to one whose product is below what was divided: so two bits more.
            least = lacking(products).div_(units.double()[..., None]).mul_(1 + 2**-51)
        return pad(least, (0, grid.m - most), value=math.inf)

    def cost(self, n: int, m: int, d: int) -> float:
        r = min(self.r or d, d) if self.ranks is None else float(self.ranks.double().mean())
        return min(r * (float(n) * m + (n + m) * d), float(n) * m * d)

    def reads(self, n: int, m: int, d: int) -> float:
        ranks = torch.as_tensor(min(self.r or d, d) if self.ranks is None else self.ranks)
        # A code, and where its sum starts; a head that looks at no dimension takes every pair unread.
        return m * per_head(torch.where(ranks > 0, ranks + 2, 0))

    def _cut(self, points: Tensor) -> Tensor:
        """Points with nothing past the rank of a head."""
        if self.ranks is None:
            return points
        inside = torch.arange(points.shape[-1], device=points.device) < self.ranks.to(points.device)[:, None, None]
        return torch.where(inside, points, 0.0)

    def _ranks(self, grid: Grid) -> Int[Tensor, " heads"]:
        """How many codes each head has to multiply: an even number."""
        ranks = torch.full((grid.heads,), self._whole_ranks) if self.ranks is None else self.ranks
        return (ranks + ranks % 2).to(grid.device)


def of_own(tables: Sequence[Float[Tensor, "heads _ _"]], which: Sequence[int]) -> Float[Tensor, "heads deep wide"]:
    """For each head its part of the table of this number, followed by zeros up to the size of the largest."""
    deep, wide = (max(each.shape[axis] for each in tables) for axis in (1, 2))
    padded = [pad(each, (0, wide - each.shape[2], 0, deep - each.shape[1])) for each in tables]
    return torch.stack(padded)[torch.tensor(which), torch.arange(len(which))]
