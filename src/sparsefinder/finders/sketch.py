"""Scores of low rank, compared within the row. Ours.

The keys that entmax gives weight to are those that score within a margin of the row's best: so what has to be predicted
is scores, not closeness, and they only have to be right relative to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph, tiles
from ..core.layout import Layout
from ..errors import InputError
from ..learning.learn import refine
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample
from .base import Finder, Keys, Queries, projected

__all__ = ["Sketch"]


@dataclass(frozen=True, eq=False)
class Sketch(Finder):
    """Connect each query to the keys that score best in r dimensions, ẑ = q'·k'.

    >>> Sketch.fit([Sample(q, k)], r=8, share=0.05)(q, k).sparsity()  # about 0.95

    projection: where inner products are scores, as `low_rank` makes it.
    share: so many of the keys that a query may see, rounded up, and what scores as high as the last of them.
    slack: or all that score at most so much less than the row's best.
    """

    projection: Projection
    share: float | None = None
    slack: float | None = None

    def __post_init__(self) -> None:
        if (self.share is None) == (self.slack is None):
            raise InputError("share, slack", f"{self.share}, {self.slack}", "one of the two")
        if self.share is not None and not 0 <= self.share <= 1:
            raise InputError("share", self.share, "a share of the keys, from 0 to 1")
        if self.slack is not None and not self.slack >= 0:
            raise InputError("slack", self.slack, "a difference of scores from 0 upwards")

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        r: int = 8,
        share: float | None = None,
        slack: float | None = None,
        *,
        steps: int = 0,
        seed: int = 0,
    ) -> Sketch:
        """The best scores of rank r on training queries and keys, by SVD; learned further if there are steps."""
        scores = low_rank(samples, r)
        return cls(refine(scores, samples, steps, seed=seed) if steps else scores, share, slack)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        q, k = (tokens.detach().flatten(0, 1) for tokens in projected(self.projection, q, k))
        # What a query may see are always the first keys.
        visible = grid.degrees().repeat_interleave(grid.heads, 0)[..., None]
        hidden = bool((visible < grid.m).any())
        keys = torch.arange(grid.m, device=grid.device)
        found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
        for heads, queries in tiles(len(q), grid.n if grid.m else 0, grid.m):
            scores, seen = q[heads, queries] @ k[heads].mT, visible[heads, queries]
            if hidden:
                scores.masked_fill_(keys >= seen, -math.inf)
            if self.share is None:
                assert self.slack is not None
                least = scores.amax(-1, keepdim=True) - self.slack
            else:
                # A little is taken off first: 0.1 · 30 keys is 3, not the 4 that its rounding error would make.
                least = _lowest_of(scores, (seen * self.share - 1e-6).ceil().long())
            chosen = (scores >= least) & (scores > -math.inf) if hidden else scores >= least
            first = (heads.start * grid.n + queries.start) * grid.m
            found.append(first + chosen.flatten().nonzero().squeeze(-1))
        return Graph.of_numbers(torch.cat(found), grid)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(self.projection.queries.shape[-1]) * (float(n) * m + (n + m) * d)


def _lowest_of(
    scores: Float[Tensor, "heads count m"], wanted: Int[Tensor, "heads count 1"]
) -> Float[Tensor, "heads count 1"]:
    """The lowest of the `wanted` highest scores of each row; infinite where none is wanted."""
    place = (scores.shape[-1] - wanted).clamp(max=scores.shape[-1] - 1)
    if scores.device.type != "cpu":
        ordered = scores.sort(-1).values
    elif bool((place == place.flatten()[0]).all()):
        # On a CPU numpy's partition takes a sixth of the time of torch's topk, and its sort half.
        ordered = torch.from_numpy(np.partition(scores.numpy(), int(place.flatten()[0]), -1))
    else:
        ordered = torch.from_numpy(np.sort(scores.numpy(), -1))
    return torch.where(wanted > 0, ordered.gather(-1, place), math.inf)
