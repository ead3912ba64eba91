"""Global tokens: a few that see everything and are seen by everything. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from .about import About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import whole
from .registry import register

__all__ = ["GlobalTokens"]


@register
@dataclass(frozen=True)
class GlobalTokens(Finder):
    """The first `count` tokens of each sequence, and its last real one if `last`, as full rows and columns.

    >>> GlobalTokens(1)(q, k).count()  # one row and one column

    count: one for all heads, or one per head.

    On a GPU it never waits for the device.
    """

    count: int | Int[Tensor, " heads"] = 1
    last: bool = False

    about = About(
        "global", "global tokens", "reference", paper="Beltagy et al., 2020, arXiv:2004.05150",
        dials=(Dial("count", whole=True, every_pair=True),), words={"count": "{} global token(s)"},
        look=Look("#4d5d7a", "#9fb2d6", "3"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, count=self.count)

    @property
    def grouped(self) -> bool:
        return True

    @property
    def causal_safe(self) -> bool:
        # While decoding every token is the last one for a moment.
        return not self.last

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        count = torch.as_tensor(self.count, device=grid.device).reshape(-1, 1)
        position, j = grid.positions()[:, None], torch.arange(grid.m, device=grid.device).expand(grid.batch, 1, -1)
        rows, columns = position < count, j < count
        if self.last:
            end = self._end(grid)[:, None]
            rows, columns = rows | (position == end), columns | (j == end)
        return Graph.rows(rows, grid) | Graph.columns(columns, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        position, j = grid.positions()[:, queries, None], torch.arange(grid.m, device=grid.device)
        least = torch.minimum(position, j) + 1
        if self.last:
            end = self._end(grid)[..., None]
            least = torch.where((position == end) | (j == end), 0, least)
        return least[:, None].double().expand(-1, grid.heads, -1, -1)

    def _end(self, grid: Grid) -> Int[Tensor, "batch 1"]:
        return grid.real_keys().sum(-1, keepdim=True) - 1
