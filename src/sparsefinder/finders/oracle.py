"""The gold graph itself: what a perfect finder would predict, at the price of computing all scores."""

from __future__ import annotations

from dataclasses import dataclass

from ..attending import gold_graph
from ..core.graph import Graph
from ..core.layout import Layout
from .base import Finder, Keys, Queries

__all__ = ["Oracle"]


@dataclass(frozen=True)
class Oracle(Finder):
    """Connect each query to the keys that entmax gives weight to.

    >>> Oracle()(q, k).recall(gold_graph(q, k))  # ones

    scale: what scores are multiplied by; 1 / √d if None.
    """

    alpha: float = 1.5
    scale: float | None = None

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        return gold_graph(q, k, self.alpha, layout, self.scale)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * d
