"""Every pair: what full attention computes. The upper end of every recall curve, and a check on everything else."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.graph import Graph
from ..core.layout import Layout
from .base import Finder, Keys, Queries

__all__ = ["Full"]


@dataclass(frozen=True)
class Full(Finder):
    """Connect each query to all keys it may see.

    >>> Full()(q, k).sparsity()  # zeros
    """

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        return Graph.full(layout.of(q, k))
