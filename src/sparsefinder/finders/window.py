"""Sliding-window attention: every query sees its neighbours. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from .base import Finder, Keys, Queries

__all__ = ["Window"]


@dataclass(frozen=True)
class Window(Finder):
    """Connect each query to the keys at most `size // 2` positions away, itself included; a size of 0 is no window.

    >>> Window(3)(q, k).sparsity()
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InputError("size", self.size, "a number of positions from 0 upwards")

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        if self.size == 0:
            return Graph(layout.of(q, k))
        return Graph.band(-(self.size // 2), self.size // 2, layout.of(q, k))
