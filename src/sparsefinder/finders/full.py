"""Every pair: what full attention computes. The upper end of every recall curve, and a check on everything else."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.graph import Graph
from ..core.layout import Grid
from .about import About, Look
from .base import Finder, Keys, Queries
from .registry import register

__all__ = ["Full"]


@register
@dataclass(frozen=True)
class Full(Finder):
    """Connect each query to all keys it may see.

    >>> Full()(q, k).sparsity()  # zeros
    """

    about = About("full", "full entmax", "reference", look=Look("#000000", "#ffffff", "_"))

    @property
    def grouped(self) -> bool:
        return True

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return Graph.full(grid)
