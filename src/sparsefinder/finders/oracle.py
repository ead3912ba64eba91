"""The gold graph itself: what a perfect finder would predict, at the price of computing all scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..attending import gold_graph
from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Look, Place
from .base import Finder, Keys, Queries
from .reading import of_keys
from .registry import register

__all__ = ["Oracle"]


@register
@dataclass(frozen=True, eq=False)
class Oracle(Finder):
    """Connect each query to the keys that entmax gives weight to.

    >>> Oracle()(q, k).recall(gold_graph(q, k))  # ones

    alpha: one for all heads, or one per head.
    scale: what scores are multiplied by; 1 / √d if None.
    mass: the share of a row's weight that is gold, as `gold_graph` takes it.
    """

    alpha: float | Float[Tensor, " heads"] = field(default=1.5, metadata=RUN)
    scale: float | None = field(default=None, metadata=RUN)
    mass: float | None = field(default=None, metadata=RUN)

    about = About(
        "oracle", "gold graph", "reference", compares="scores", bound=True, look=Look("#555555", "#bbbbbb", "4")
    )

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return gold_graph(q, k, self.alpha, grid.layout, self.scale, mass=self.mass)

    def at(self, place: Place) -> Oracle:
        alpha = torch.tensor(place.alpha) if isinstance(place.alpha, tuple) else place.alpha
        return replace(self, alpha=alpha, scale=place.scale, mass=place.mass)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * d

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, d)
