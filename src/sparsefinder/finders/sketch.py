"""Scores of low rank, compared within the row. Ours.

The keys that entmax gives weight to are those that lack little to the better ones of the row: so what has to be
predicted is scores, not closeness, and they only have to be right relative to each other. Eight bits a number are
enough for that (docs/finders.md), and four times as fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.bounded import BoundedIndex
from ..core.chunks import chunks
from ..core.codes import key_codes, query_codes
from ..core.graph import Graph
from ..core.index import KeyIndex
from ..core.layout import Grid
from ..core.pieces import Buckets, Rule, Sketched
from ..core.pieces.rules import FAR, best_of, lacking, limits_of
from ..errors import InputError
from ..learning.moments import bounding, leading, low_rank
from ..learning.projection import Projection
from ..learning.rows import refine
from ..learning.sample import Sample, batches
from .about import FIT, LEARNED, About, Dial, Look
from .base import Finder, Fitting, Keys, Learned, Queries, Settings
from .best import hidden, lowest_of
from .checks import at_least, between, whole
from .reading import per_head
from .registry import register
from .shares import shares_of, wanted_of

__all__ = ["Sketch"]

SLACK, SHARE = Dial("slack", every_pair=True), Dial("share", most=1, every_pair=True)
# The ranks that are tried, and how many dimensions a head has at the most.
RANKS, MOST_RANKS = (8, 16, 32, 48, 64), 1 << 16
# What a pair costs in units of one that is looked at with all others, in float32: compared in one of d dimensions of
# 8 bits, and looked at by itself; what a row costs besides; and a pair of those that are all in, most of which can be
# proven to get no weight if they are many. Measured (docs/benchmarks.md).
COMPARED, LOOKED_AT, ROW, PROVEN, LEAST_PROVEN = 0.35, 5.0, 200.0, 0.38, 768


@register
@dataclass(frozen=True, eq=False)
class Sketch(Learned):
    """Connect each query to the keys that score best in r dimensions, ẑ = q'·k', rounded to 8 bits.

    >>> Sketch(r=16, slack=2.0).fit([Sample(q, k)])(q, k)

    r: all there are if None; where a recall is wanted, each head then gets the rank that reaches it in the least time.
    slack: all whose score lacks at most so much to the better ones of the row: the root of the sum of squares of what
    it lacks to each. With all scores as they are, 1.5-entmax gives weight to what lacks less than 2.
    share: or so many of the keys that a query may see, rounded up, and what scores as high as the last of them. One for
    all heads, or one per head, of either.
    steps: learn them so many steps further, after they were made by SVD: as the best rank r for which keys come first
    (`learning.rows.refine`), instead of the best for all scores. 300 are enough, and take some seconds for a layer.
    projection: where inner products are scores, and keys are worth rounding to whole numbers.
    ranks: how many of the dimensions each head looks at, none for every pair; all of them if None.
    bounded: learn what an index needs whose answer is exact: `bounds`, maps of all dimensions, and the `means` of keys.

    On a GPU it never waits for the device.
    """

    r: int | None = field(default=None, metadata=FIT)
    slack: int | float | Float[Tensor, " heads"] | None = None
    share: int | float | Float[Tensor, " heads"] | None = None
    steps: int = field(default=0, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    ranks: Int[Tensor, " heads"] | None = None
    bounded: bool = field(default=False, metadata=FIT)
    bounds: Projection | None = field(default=None, metadata=LEARNED)
    means: Float[Tensor, "heads d"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "sketch",
        "sketch",
        "ours",
        compares="scores",
        dials=(SLACK, SHARE),
        words={
            "r": "{} dimension(s)",
            "share": "keeps the best {%} of keys",
            "slack": "keeps scores that lack up to {}",
            "steps": "learned in {} steps",
        },
        look=Look("#007a58", "#2fc496", "D"),
    )

    def __post_init__(self) -> None:
        if self.r is not None:
            whole(1, r=self.r)
        whole(0, steps=self.steps)
        if self.ranks is not None:
            whole(0, ranks=self.ranks)
            between(0, self.r or MOST_RANKS, ranks=self.ranks)
        if (self.share is None) == (self.slack is None):
            got = f"share {self.share}, slack {self.slack}"
            raise InputError("parameters of sketch", got, "share or slack among them")
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

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Sketch:
        """The best scores of rank r on training queries and keys, by SVD; learned further if there are steps."""
        scores = low_rank(samples, self.r or next(batches(samples)).q.shape[-1])
        bounds, means = bounding(samples) if self.bounded else (None, None)
        scores = refine(scores, samples, self.steps, seed=how.seed) if self.steps else scores
        return replace(self, projection=scores, bounds=bounds, means=means)

    def variants(self) -> tuple[Sketch, ...]:
        """The ranks to choose among where none was given, and rank 0: every pair."""
        if self.r is not None or self.ranks is not None or self.projection is None:
            return (self,)
        heads, _, most = self.projection.queries.shape
        ranks = (0, *(rank for rank in RANKS if rank < most), most)
        return tuple(replace(self, ranks=torch.full((heads,), rank)) for rank in ranks)

    def price(self, density: Float[Tensor, " heads"], m: int, d: int) -> Float[Tensor, " heads"]:
        ranks = torch.full_like(density, self.r or d) if self.ranks is None else self.ranks.to(density)
        compared = ranks * (COMPARED / d + 2 / m) + LOOKED_AT * density + ROW / m
        return torch.where(ranks > 0, compared, PROVEN + ROW / m if m >= LEAST_PROVEN else 1.0)

    @classmethod
    def joined(cls, options: Sequence[Finder], which: Sequence[int]) -> Sketch | None:
        """Sketches are one, with the maps, the rank and the dial of each head, if they have the same dial."""
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
            queries, keys = (
                torch.stack([pad(table, (0, r - table.shape[-1])) for table in tables])[place, head]
                for tables in ([each.queries for each in maps], [each.keys for each in maps])
            )
            both = Projection(queries, keys)
        return replace(first, r=r, ranks=ranks, projection=both, **{first.dial.field: dials})  # type: ignore[arg-type]

    @property
    def _whole_ranks(self) -> int:
        """How many dimensions there are to look at."""
        assert self.projection is not None
        return self.projection.queries.shape[-1]

    def on(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if self.slack is None:
            return super().on(q, k, grid)
        self._check(grid)
        return Graph(grid, (self._sketched(q, k, grid, None),))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if self.slack is None:
            return Graph(grid, (self._among(Graph.full(grid), q, k),))
        queries, units = query_codes(self._cut(q))
        return Graph(grid, (Rule(queries, key_codes(self._cut(k)), self._below(units), grid, self._ranks(grid)),))

    def among(self, first: Graph, q: Queries, k: Keys) -> Graph:
        """Of pairs that are predicted already, those that score best among them."""
        self._check(first.grid)
        if self.slack is not None and len(first.pieces) == 1 and isinstance(first.pieces[0], Buckets):
            return Graph(first.grid, (self._sketched(q, k, first.grid, first.pieces[0]),))
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

    def _sketched(self, q: Queries, k: Keys, grid: Grid, among: Buckets | None) -> Sketched:
        maps = self.projection
        assert maps is not None
        slack = self._per_head(self.slack, grid)[:, 0, 0].contiguous()
        ranks = self.ranks if self.ranks is not None else torch.full((grid.heads,), self._whole_ranks)
        return Sketched(
            q.detach(), k.detach(), maps.queries, maps.keys, slack, ranks.to(grid.device).contiguous(), grid, among
        )

    def index(self, k: Keys, exact: bool = False) -> KeyIndex | None:
        """The codes of keys, kept and appended to: asked while decoding, instead of all keys.

        exact: one whose answer is that of full attention; None unless the finder was fitted to be `bounded`.
        """
        if self.projection is None:
            raise InputError("finder", f"{self.about.name}, which was not fitted", "its fit(samples), called first")
        heads, d, _ = self.projection.queries.shape
        if exact:
            if self.bounds is None or self.means is None:
                return None
            ranks = torch.full((heads,), leading(d))
            return BoundedIndex(self.bounds.queries, self.bounds.keys, ranks, self.means).append(k)
        ranks = torch.full((heads,), self._whole_ranks) if self.ranks is None else self.ranks
        slack, share = (
            None if each is None else torch.as_tensor(each, dtype=torch.float64).expand(heads).contiguous()
            for each in (self.slack, self.share)
        )
        return KeyIndex(self.projection.queries, self.projection.keys, ranks, slack, share).append(k)

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

    def _per_head(self, setting: int | float | Tensor | None, grid: Grid) -> Float[Tensor, "heads 1 1"]:
        return torch.as_tensor(setting, dtype=torch.float64, device=grid.device).expand(grid.heads)[:, None, None]
