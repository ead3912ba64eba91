"""Sliding-window attention: every query sees its neighbours. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Bands
from .about import About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import whole
from .registry import register

__all__ = ["Window"]


@register
@dataclass(frozen=True)
class Window(Finder):
    """Connect each query to the keys at most `size // 2` positions away, itself included; a size of 0 is no window.

    >>> Window(3)(q, k).sparsity()

    size: one for all heads, or one per head. Left out it is 0, which predicts nothing: the baseline of a sweep, whose
        grid brings the windows.

    On a GPU it never waits for the device.
    """

    size: int | Int[Tensor, " heads"] = 0

    about = About(
        "window", "window", "rival", paper="Beltagy et al., 2020, arXiv:2004.05150",
        dials=(Dial("size", whole=True, every_pair=True),), words={"size": "{} wide"},
        look=Look("#3a3a3a", "#d6d6d6", "X"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, size=self.size)

    @property
    def grouped(self) -> bool:
        return True

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if isinstance(self.size, Tensor):
            return Graph(grid, (Bands(torch.where(self.size > 0, self.size // 2, -1).to(grid.device)),))
        return Graph.band(-(self.size // 2), self.size // 2, grid) if self.size else Graph(grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        away = (grid.positions()[:, queries, None] - torch.arange(grid.m, device=grid.device)).abs()
        return torch.where(away == 0, 1, 2 * away)[:, None].double().expand(-1, grid.heads, -1, -1)
