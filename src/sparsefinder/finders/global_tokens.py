"""Global tokens: a few that see everything and are seen by everything. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from .base import Finder, Keys, Queries

__all__ = ["GlobalTokens"]


@dataclass(frozen=True)
class GlobalTokens(Finder):
    """The first `count` tokens of each sequence, and its last real one if `last`, as full rows and columns.

    >>> GlobalTokens(1)(q, k).count()  # one row and one column
    """

    count: int = 1
    last: bool = False

    def __post_init__(self) -> None:
        if self.count < 0:
            raise InputError("count", self.count, "a number of tokens from 0 upwards")

    @property
    def causal_safe(self) -> bool:
        # While decoding every token is the last one for a moment.
        return not self.last

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        b = torch.arange(grid.batch, device=grid.device)[:, None]
        position = grid.position(b, torch.arange(grid.n, device=grid.device)).expand(grid.batch, grid.n)
        j = torch.arange(grid.m, device=grid.device)
        rows, columns = position < self.count, (j < self.count).expand(grid.batch, grid.m)
        if self.last:
            end = grid.real_keys().sum(-1, keepdim=True) - 1
            rows, columns = rows | (position == end), columns | (j == end)
        return Graph.rows(rows[:, None], grid) | Graph.columns(columns[:, None], grid)
