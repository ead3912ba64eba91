"""Longformer: a window and a few global tokens, here random ones. Beltagy et al., 2020, arXiv:2004.05150."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Look, Place
from .base import Finder, Keys, Queries
from .checks import whole
from .draws import choose, seed_at
from .registry import register
from .window import Window

__all__ = ["Longformer"]


@register
@dataclass(frozen=True)
class Longformer(Finder):
    """A window, and `globals` random tokens of each sequence that see and are seen by all, the same in every head.

    >>> Longformer(window=11, globals=4)(q, k)
    """

    window: int = 3
    globals: int = 4
    seed: int = field(default=0, metadata=RUN)

    about = About(
        "longformer", "Longformer", "rival", paper="Beltagy et al., 2020, arXiv:2004.05150",
        grid={"globals": (2, 4, 8, 16, 32), "window": (1, 11, 25, 75)},
        words={"globals": "{} random global token(s)"}, look=Look("#b87900", "#f0b93f", "<"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, window=self.window, globals=self.globals)

    @property
    def causal_safe(self) -> bool:
        # They are drawn from the whole sequence, so where they lie depends on how long it gets.
        return self.globals == 0

    def apart(self, place: Place) -> Longformer:
        return replace(self, seed=seed_at(self.seed, place))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        lengths = grid.real_keys().sum(-1)
        chosen = choose(self.globals, lengths, self.seed, torch.zeros_like(lengths))
        position = grid.positions()
        rows = (position[..., None] == chosen[:, None]).any(-1) & (position >= 0)
        columns = (torch.arange(grid.m, device=grid.device)[:, None] == chosen[:, None]).any(-1)
        local = Window(self.window).on(q, k, grid)
        return local | Graph.rows(rows[:, None], grid) | Graph.columns(columns[:, None], grid)
