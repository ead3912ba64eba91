"""What the last queries attend to: the weight of each column and each diagonal in their rows, and graphs of the best.

What MInference and FlexPrefill choose vertical and slash lines by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Diagonals
from .base import Keys, Queries, Settings
from .block_mass import softmax_seen

__all__ = ["LastQueries", "graph_of_lines", "needed_of_lines"]


@dataclass(frozen=True, eq=False)
class LastQueries:
    """The last queries of each sequence, the keys that they may see, and their softmax weights.

    Where a sequence has fewer queries than are asked for, rows at the beginning are nobody's: they see nothing.
    """

    places: Int[Tensor, "batch count"]
    queries: Float[Tensor, "batch heads count d"]
    seen: Bool[Tensor, "batch count m"]
    weights: Float[Tensor, "batch heads count m"]
    grid: Grid

    @staticmethod
    def of(q: Queries, k: Keys, grid: Grid, count: int, factor: float) -> LastQueries:
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
        count, lengths = min(count, grid.n), grid.layout.query_lengths
        ends = torch.full((grid.batch,), grid.n, device=grid.device) if lengths is None else lengths
        i = ends[:, None] - count + torch.arange(count, device=grid.device)
        b, j = torch.arange(grid.batch, device=grid.device)[:, None, None], torch.arange(grid.m, device=grid.device)
        seen = grid.visible(b, i[..., None], j) & (i >= 0)[..., None]
        queries = q.take_along_dim(i.clamp(min=0)[:, None, :, None], 2)
        return LastQueries(i, queries, seen, softmax_seen(queries @ k.mT * factor, seen[:, None]), grid)

    def mean(self) -> Float[Tensor, "batch heads d"]:
        """The mean of the queries."""
        real = (self.places >= 0)[:, None, :, None]
        return torch.where(real, self.queries, 0.0).sum(2) / real.sum(2).clamp(min=1)

    def columns(self) -> Float[Tensor, "batch heads m"]:
        """The weight of each key in all rows; −∞ where none of them sees it."""
        return self.weights.sum(2).masked_fill(~self.seen.any(1)[:, None], -math.inf)

    def diagonals(self) -> Float[Tensor, "batch heads span"]:
        """The weight of each diagonal in all rows, the keys farthest ahead first; −∞ where no row has a pair of it."""
        batch, heads, n, m = self.grid.shape
        places = (self.places.clamp(min=0)[..., None] - torch.arange(m, device=self.grid.device) + m - 1).flatten(1)
        sums = self.weights.new_zeros(batch, heads, n + m - 1)
        sums.scatter_add_(2, places[:, None].expand(-1, heads, -1), self.weights.flatten(2))
        pairs = torch.zeros(batch, n + m - 1, dtype=torch.long, device=self.grid.device)
        pairs.scatter_add_(1, places, self.seen.flatten(1).long())
        return sums.masked_fill(pairs[:, None] == 0, -math.inf)


def graph_of_lines(
    columns: Bool[Tensor, "batch heads m"], diagonals: Bool[Tensor, "batch heads span"], grid: Grid
) -> Graph:
    """Vertical lines and slashes."""
    return Graph.columns(columns, grid) | Graph(grid, (Diagonals(diagonals),))


def needed_of_lines(
    columns: Float[Tensor, "batch heads m"], diagonals: Float[Tensor, "batch heads span"], grid: Grid, queries: slice
) -> Settings:
    """What pairs need of a dial, if their column and their diagonal need this: the less of both."""
    i, j = (torch.arange(size, device=grid.device) for size in (grid.n, grid.m))
    return torch.minimum(columns[:, :, None], diagonals[..., i[queries, None] - j + grid.m - 1])
