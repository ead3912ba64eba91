"""Scores of low rank, compared within the row. Ours.

The keys that entmax gives weight to are those that lack little to the better ones of the row: so what has to be
predicted is scores, not closeness, and they only have to be right relative to each other. Eight bits a number are
enough for that (docs/finders.md), and four times as fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.bounded import BoundedIndex
from ..core.graph import Graph
from ..core.index import KeyIndex
from ..core.layout import Grid
from ..core.pieces import Buckets, Sketched
from ..errors import InputError
from ..learning.moments import bounding, leading, low_rank
from ..learning.projection import Projection
from ..learning.rows import refine
from ..learning.sample import Sample, batches
from .about import FIT, LEARNED, About, Look
from .base import Fitting, Keys, Queries
from .coded import SHARE, SLACK, WORDS, Coded
from .registry import register

__all__ = ["Sketch"]

# The ranks that are tried.
RANKS = (8, 16, 32, 48, 64)


@register
@dataclass(frozen=True, eq=False)
class Sketch(Coded):
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

    bounded: bool = field(default=False, metadata=FIT)
    bounds: Projection | None = field(default=None, metadata=LEARNED)
    means: Float[Tensor, "heads d"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "sketch",
        "sketch",
        "ours",
        compares="scores",
        dials=(SLACK, SHARE),
        words=WORDS,
        look=Look("#007a58", "#2fc496", "D"),
    )

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

    def on(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if self.slack is None:
            return super().on(q, k, grid)
        self._check(grid)
        return Graph(grid, (self._sketched(q, k, grid, None),))

    def among(self, first: Graph, q: Queries, k: Keys) -> Graph:
        """Of pairs that are predicted already, those that score best among them."""
        if self.slack is None or len(first.pieces) != 1 or not isinstance(first.pieces[0], Buckets):
            return super().among(first, q, k)
        self._check(first.grid)
        return Graph(first.grid, (self._sketched(q, k, first.grid, first.pieces[0]),))

    def _sketched(self, q: Queries, k: Keys, grid: Grid, among: Buckets | None) -> Sketched:
        maps = self.projection
        assert maps is not None
        slack = torch.as_tensor(self.slack, dtype=torch.float64, device=grid.device).expand(grid.heads).contiguous()
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
