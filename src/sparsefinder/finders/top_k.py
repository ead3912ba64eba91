"""The best graph of a given size: no finder that predicts so many pairs has a higher recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..entmax import entmax_threshold
from ..errors import InputError
from ..graph import Graph, chunks
from ..layout import Layout
from .base import Finder, Keys, Queries, refuse_decoding

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK(Finder):
    """The share of the visible pairs of a head that lie highest above (or least below) their row's entmax threshold.

    >>> TopK(0.05)(q, k).sparsity()  # 0.95

    Above the threshold are the gold pairs, so these come first. Computes all scores, in chunks of queries.
    scale: what scores are multiplied by; 1 / √d if None.
    """

    share: float
    alpha: float = 1.5
    scale: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InputError("share", self.share, "a share of the pairs, from 0 to 1")
        if self.alpha <= 1:
            raise InputError("alpha", self.alpha, "a number above 1: softmax has no threshold")

    @property
    def causal_safe(self) -> bool:
        # Pairs of all rows compete for the same places.
        return False

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        refuse_decoding(self, layout)
        grid = layout.of(q, k)
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        wanted = (grid.degrees().sum(-1) * self.share).round().long()
        most = int(wanted.amax()) if grid.batch else 0
        best = q.new_empty(grid.batch, grid.heads, 0)
        places = torch.empty(grid.batch, grid.heads, 0, dtype=torch.long, device=grid.device)
        everything = Graph.full(grid)
        for queries in chunks(grid.n, grid.batch * grid.heads * grid.m):
            scores = (q[:, :, queries] * scale @ k.transpose(-1, -2)).masked_fill(~everything.mask(queries), -math.inf)
            above = scores - entmax_threshold(scores, self.alpha)[..., None].nan_to_num(neginf=0.0)
            here = torch.arange(queries.start * grid.m, queries.stop * grid.m, device=grid.device)
            best, places = (
                torch.cat([best, above.flatten(2)], -1),
                torch.cat([places, here.expand_as(above.flatten(2))], -1),
            )
            best, order = best.topk(min(most, best.shape[-1]), -1)
            places = places.gather(-1, order)
        rank = torch.arange(best.shape[-1], device=grid.device)
        keep = (rank < wanted[:, None, None]) & (best > -math.inf)
        b, h, place = keep.nonzero().unbind(-1)
        entry = places[b, h, place]
        return Graph.of_pairs(b, h, entry // max(grid.m, 1), entry % max(grid.m, 1), grid)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * d
