"""Longformer: a window and a few global tokens, here random ones. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from .base import Finder, Keys, Queries, refuse_decoding
from .draws import choose
from .window import Window

__all__ = ["Longformer"]


@dataclass(frozen=True)
class Longformer(Finder):
    """A window, and `globals` random tokens of each sequence that see and are seen by all, the same in every head.

    >>> Longformer(window=11, globals=4)(q, k)
    """

    window: int = 3
    globals: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.globals < 0:
            raise InputError("globals", self.globals, "a number of tokens from 0 upwards")

    @property
    def causal_safe(self) -> bool:
        # They are drawn from the whole sequence, so where they lie depends on how long it gets.
        return self.globals == 0

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        refuse_decoding(self, layout)
        grid = layout.of(q, k)
        lengths = grid.real_keys().sum(-1)
        chosen = choose(self.globals, lengths, self.seed, torch.zeros_like(lengths))
        b = torch.arange(grid.batch, device=grid.device)[:, None]
        position = grid.position(b, torch.arange(grid.n, device=grid.device)).expand(grid.batch, grid.n)
        rows = (position[..., None] == chosen[:, None]).any(-1) & (position >= 0)
        columns = (torch.arange(grid.m, device=grid.device)[:, None] == chosen[:, None]).any(-1)
        local = Window(self.window)(q, k, layout)
        return local | Graph.rows(rows[:, None], grid) | Graph.columns(columns[:, None], grid)
