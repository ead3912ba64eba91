"""Strided attention of the Sparse Transformer. Child et al., 2019, arXiv:1904.10509."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core.graph import Graph
from ..core.layout import Grid
from .about import About, Look
from .base import Finder, Keys, Queries
from .checks import whole
from .registry import register

__all__ = ["Strided"]


@register
@dataclass(frozen=True)
class Strided(Finder):
    """Connect each query to the keys at most `stride` positions away, and to every stride-th one from its own.

    >>> Strided(32)(q, k, Layout(causal=True))
    """

    stride: int

    about = About(
        "strided", "strided", "rival", paper="Child et al., 2019, arXiv:1904.10509",
        grid={"stride": (4, 6, 8, 12, 16, 24, 32)}, words={"stride": "every {}th key"},
        look=Look("#5f6b2d", "#b4c46a", "1"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, stride=self.stride)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        queries = (grid.positions() % self.stride)[:, None, :, None]
        keys = (torch.arange(grid.m, device=grid.device) % self.stride).expand(grid.batch, 1, -1)[..., None]
        return Graph.band(-self.stride, self.stride, grid) | Graph.buckets(queries, keys, grid)
