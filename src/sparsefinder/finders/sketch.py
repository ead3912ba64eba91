"""Scores of low rank, compared within the row. Ours.

The keys that entmax gives weight to are those that score within a margin of the row's best: so what has to be predicted
is scores, not closeness, and they only have to be right relative to each other. Eight bits a number are enough for that
(docs/finders.md), and four times as fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph, chunks
from ..core.layout import Grid
from ..core.pieces import Buckets, Rule
from ..errors import InputError
from ..learning.learn import refine
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import at_least, between, whole
from .codes import key_codes, query_codes
from .registry import register

__all__ = ["Sketch"]

SLACK, SHARE = Dial("slack", every_pair=True), Dial("share", most=1, every_pair=True)
# A little is taken off a number of keys before it is rounded up: 0.1 · 30 keys is 3, not the 4 of its rounding error.
ROUNDING = 1e-6
# More than any difference of two products.
FAR = 1 << 17


@register
@dataclass(frozen=True, eq=False)
class Sketch(Learned):
    """Connect each query to the keys that score best in r dimensions, ẑ = q'·k', rounded to 8 bits.

    >>> Sketch(r=16, slack=2.0).fit([Sample(q, k)])(q, k)

    slack: all that score at most so much less than the row's best.
    share: or so many of the keys that a query may see, rounded up, and what scores as high as the last of them. One for
    all heads, or one per head, of either.
    steps: learn the scores so many steps further, after they were made by SVD.
    projection: where inner products are scores, and keys are worth rounding to whole numbers.
    ranks: how many of the dimensions each head looks at, none for every pair; all of them if None.
    """

    r: int = field(default=8, metadata=FIT)
    slack: int | float | Float[Tensor, " heads"] | None = None
    share: int | float | Float[Tensor, " heads"] | None = None
    steps: int = field(default=0, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    ranks: Int[Tensor, " heads"] | None = None

    about = About(
        "sketch", "sketch", "ours", compares="scores", dials=(SLACK, SHARE), look=Look("#007a58", "#2fc496", "D")
    )

    def __post_init__(self) -> None:
        whole(1, r=self.r)
        whole(0, steps=self.steps)
        if self.ranks is not None:
            whole(0, ranks=self.ranks)
            between(0, self.r, ranks=self.ranks)
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
        scores = low_rank(samples, self.r)
        return replace(self, projection=refine(scores, samples, self.steps, seed=how.seed) if self.steps else scores)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return Graph(grid, (self._rule(q, k, grid, None),))

    def among(self, q: Queries, k: Keys, first: Graph) -> Graph:
        """Of the pairs that another finder predicts, those that score best among them."""
        grid, pieces = first.grid, first.pieces
        q, k = self.compared(q, k)
        if self.slack is not None and len(pieces) == 1 and isinstance(pieces[0], Buckets):
            return Graph(grid, (self._rule(q, k, grid, pieces[0]),))
        rule = self._rule(q, k, grid, None, first)
        return first & Graph(grid, (rule,))

    def _rule(self, q: Queries, k: Keys, grid: Grid, among: Buckets | None, first: Graph | None = None) -> Rule:
        """The rule of these queries and keys: relative to the best of the row, unless that takes counting."""
        queries, units = self._queries(q)
        keys, ranks = key_codes(k), self._ranks(queries)
        if self.slack is not None:
            limits = (units.double() * self._per_head(self.slack, grid)[..., 0]).floor().clamp(max=FAR).int()
            rule = Rule(queries, keys, limits, grid, ranks, among=among)
            if first is None:
                return rule
        else:
            limits = torch.zeros(grid.shape[:3], dtype=torch.int32, device=grid.device)
            rule = Rule(queries, keys, limits, grid, ranks)
        reach = torch.empty_like(limits)
        for some in chunks(grid.n if grid.m else 0, grid.batch * grid.heads * grid.m):
            seen = (Graph.full(grid) if first is None else first).mask(some)
            products = rule.products(some).masked_fill_(~seen, -math.inf)
            if self.slack is not None:
                least = products.amax(-1) - limits[:, :, some]
            else:
                wanted = (seen.sum(-1, keepdim=True) * self._per_head(self.share, grid) - ROUNDING).ceil().long()
                least = _lowest_of(products, wanted)[..., 0]
            reach[:, :, some] = least.clamp(-FAR, FAR).int()
        return Rule(queries, keys, reach, grid, ranks, relative=False)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        codes, units = self._queries(q[:, :, queries])
        products = codes.float() @ key_codes(k).float().mT
        seen = grid.degrees()[:, None, queries, None]
        if bool((seen < grid.m).any()):
            # What a query may see are always the first keys.
            products.masked_fill_(torch.arange(grid.m, device=grid.device) >= seen, -math.inf)
        if self.slack is None:
            # The least share that is rounded up to one key more than those that score higher.
            return (_higher(products) + ROUNDING) * (1 + 1e-9) / seen.clamp(min=1)
        best = products.amax(-1, keepdim=True)
        below, units = (torch.where(best > -math.inf, best, 0.0) - products).double(), units.double()[..., None]
        # A quotient may be rounded down to one whose product is below what was divided.
        least = below / units
        return torch.where(least * units < below, torch.nextafter(least, torch.full_like(least, torch.inf)), least)

    def cost(self, n: int, m: int, d: int) -> float:
        r = self.r if self.ranks is None else float(self.ranks.double().mean())
        return r * (float(n) * m + (n + m) * d)

    def _queries(self, q: Queries) -> tuple[Tensor, Tensor]:
        """The codes of queries, with nothing past the rank of a head, and what they were multiplied by."""
        if self.ranks is not None:
            q = torch.where(torch.arange(q.shape[-1], device=q.device) < self.ranks.to(q.device)[:, None, None], q, 0.0)
        return query_codes(q)

    def _ranks(self, codes: Tensor) -> Int[Tensor, " heads"]:
        """How many codes each head has to multiply: an even number."""
        if self.ranks is None:
            return torch.full((codes.shape[1],), codes.shape[-1], device=codes.device)
        return self.ranks.to(codes.device) + self.ranks.to(codes.device) % 2

    def _per_head(self, setting: int | float | Tensor | None, grid: Grid) -> Float[Tensor, "heads 1 1"]:
        return torch.as_tensor(setting, dtype=torch.float64, device=grid.device).expand(grid.heads)[:, None, None]


def _higher(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape m"]:
    """How many scores of the row are higher than each."""
    ordered = _sorted(scores)
    return (scores.shape[-1] - torch.searchsorted(ordered, scores, right=True)).double()


def _lowest_of(scores: Float[Tensor, "*shape m"], wanted: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape2 1"]:
    """The lowest of the `wanted` highest scores of each row; infinite where none is wanted."""
    place = (scores.shape[-1] - wanted).clamp(0, scores.shape[-1] - 1)
    if scores.device.type == "cpu" and bool((place == place.flatten()[0]).all()):
        # On a CPU numpy's partition takes a sixth of the time of torch's topk, and its sort half.
        ordered = torch.from_numpy(np.partition(scores.numpy(), int(place.flatten()[0]), -1))
    else:
        ordered = _sorted(scores)
    return torch.where(wanted > 0, ordered.gather(-1, place), math.inf)


def _sorted(scores: Tensor) -> Tensor:
    return torch.from_numpy(np.sort(scores.numpy(), -1)) if scores.device.type == "cpu" else scores.sort(-1).values
