"""Scores of low rank, compared within the row. Ours.

The keys that entmax gives weight to are those that score within a margin of the row's best: so what has to be predicted
is scores, not closeness, and they only have to be right relative to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph, tiles
from ..core.layout import Grid
from ..errors import InputError
from ..learning.learn import refine
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import at_least, between, rounded_down, whole
from .registry import register

__all__ = ["Sketch"]

SHARE, SLACK = Dial("share", most=1, every_pair=True), Dial("slack", every_pair=True)
# A little is taken off a number of keys before it is rounded up: 0.1 · 30 keys is 3, not the 4 of its rounding error.
ROUNDING = 1e-6


@register
@dataclass(frozen=True, eq=False)
class Sketch(Learned):
    """Connect each query to the keys that score best in r dimensions, ẑ = q'·k'.

    >>> Sketch(r=8, share=0.05).fit([Sample(q, k)])(q, k).sparsity()  # about 0.95

    share: so many of the keys that a query may see, rounded up, and what scores as high as the last of them.
    slack: or all that score at most so much less than the row's best. One for all heads, or one per head, of either.
    steps: learn the scores so many steps further, after they were made by SVD.
    projection: where inner products are scores.
    """

    r: int = field(default=8, metadata=FIT)
    share: int | float | Float[Tensor, " heads"] | None = None
    slack: int | float | Float[Tensor, " heads"] | None = None
    steps: int = field(default=0, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "sketch", "sketch", "ours", compares="scores", dials=(SHARE, SLACK), look=Look("#007a58", "#2fc496", "D")
    )

    def __post_init__(self) -> None:
        whole(1, r=self.r)
        whole(0, steps=self.steps)
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
        q, k = (tokens.detach().flatten(0, 1) for tokens in (q, k))
        visible = grid.degrees().repeat_interleave(grid.heads, 0)[..., None]
        found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
        setting = self.share if self.slack is None else self.slack
        per_head = torch.as_tensor(setting, dtype=torch.float64, device=grid.device).expand(grid.heads)
        limits = per_head.repeat(grid.batch)[:, None, None]
        for heads, queries in tiles(len(q), grid.n if grid.m else 0, grid.m):
            scores, seen = q[heads, queries] @ k[heads].mT, visible[heads, queries]
            hidden = _hide(scores, seen)
            if self.slack is None:
                chosen = scores >= _lowest_of(scores, (seen * limits[heads] - ROUNDING).ceil().long())
            else:
                chosen = _below(scores) <= rounded_down(limits[heads], scores.dtype)
            if hidden:
                chosen &= scores > -math.inf
            first = (heads.start * grid.n + queries.start) * grid.m
            found.append(first + chosen.flatten().nonzero().squeeze(-1))
        return Graph.of_numbers(torch.cat(found), grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        seen = grid.degrees()[:, None, queries, None]
        scores = q[:, :, queries].detach() @ k.detach().mT
        _hide(scores, seen)
        if self.slack is not None:
            return _below(scores).double()
        # The least share that is rounded up to one key more than those that score higher.
        return (_higher(scores) + ROUNDING) * (1 + 1e-9) / seen.clamp(min=1)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(self.r) * (float(n) * m + (n + m) * d)


def _hide(scores: Float[Tensor, "*shape count m"], seen: Int[Tensor, "*shape2 count 1"]) -> bool:
    """Set what may not be seen to −∞, and say whether there is any. What a query may see are always the first keys."""
    hidden = bool((seen < scores.shape[-1]).any())
    if hidden:
        scores.masked_fill_(torch.arange(scores.shape[-1], device=scores.device) >= seen, -math.inf)
    return hidden


def _below(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape m"]:
    """How far each score is below the row's best."""
    best = scores.amax(-1, keepdim=True)
    return torch.where(best > -math.inf, best, 0.0) - scores


def _higher(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape m"]:
    """How many scores of the row are higher than each."""
    ordered = _sorted(scores)
    return (scores.shape[-1] - torch.searchsorted(ordered, scores, right=True)).double()


def _lowest_of(
    scores: Float[Tensor, "heads count m"], wanted: Int[Tensor, "heads count 1"]
) -> Float[Tensor, "heads count 1"]:
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
