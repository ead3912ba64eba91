"""The best graph of a given size: no finder that predicts so many pairs has a higher recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..core.entmax import entmax_threshold
from ..core.graph import Graph, chunks
from ..core.layout import Layout
from ..errors import InputError
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
        # What a query may see are always the first keys.
        visible, keys = grid.degrees(), torch.arange(grid.m, device=grid.device)
        numbers = torch.arange(grid.n * grid.m, device=grid.device).view(grid.n, grid.m)
        found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
        for head in range(grid.batch * grid.heads):
            b, h = divmod(head, grid.heads)
            wanted = int((visible[b].sum() * self.share).round())
            best, places = q.new_empty(0), found[0]
            for queries in chunks(grid.n, grid.m):
                scores = q[b, h, queries] * scale @ k[b, h].mT
                scores = scores.masked_fill(keys >= visible[b, queries, None], -math.inf)
                above = scores - entmax_threshold(scores, self.alpha)[..., None].nan_to_num(neginf=0.0)
                best, places = torch.cat([best, above.flatten()]), torch.cat([places, numbers[queries].flatten()])
                best, order = best.topk(min(wanted, len(best)), sorted=False)
                places = places[order]
            found.append(places[best > -math.inf].sort().values + head * grid.n * grid.m)
        return Graph.of_numbers(torch.cat(found), grid)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * d
