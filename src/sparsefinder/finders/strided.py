"""Strided attention of the Sparse Transformer. Child et al., 2019, arXiv:1904.10509."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from .base import Finder, Keys, Queries

__all__ = ["Strided"]


@dataclass(frozen=True)
class Strided(Finder):
    """Connect each query to the keys at most `stride` positions away, and to every stride-th one from its own.

    >>> Strided(32)(q, k, Layout(causal=True))
    """

    stride: int

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise InputError("stride", self.stride, "a number of positions from 1 upwards")

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        b = torch.arange(grid.batch, device=grid.device)[:, None]
        position = grid.position(b, torch.arange(grid.n, device=grid.device)).expand(grid.batch, grid.n)
        queries = (position % self.stride)[:, None, :, None]
        keys = (torch.arange(grid.m, device=grid.device) % self.stride).expand(grid.batch, 1, -1)[..., None]
        return Graph.band(-self.stride, self.stride, grid) | Graph.buckets(queries, keys, grid)
