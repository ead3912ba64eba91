"""A graph of the pairs that a method chooses when it is asked about all keys of some queries at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Pairs

__all__ = ["Listed", "listed", "pairs_of", "rows_of"]

# How many keys each of some queries has, (batch, heads, count), and one row after the other which, in order.
Listed = tuple[Int[Tensor, "batch heads count"], Int[Tensor, " entries"]]


def listed(rows: Callable[[slice], Listed], grid: Grid) -> Graph:
    """The pairs of all queries, from lists of those of some at a time: never are all of them in a matrix."""
    width = grid.batch * grid.heads * grid.m
    if not (width and grid.n):
        return Graph(grid)
    counts: list[Tensor] = []
    heads: list[list[Tensor]] = [[] for _ in range(grid.batch * grid.heads)]
    for queries in chunks(grid.n, width):
        some, keys = rows(queries)
        counts.append(some)
        for head, part in zip(heads, keys.split(some.sum(-1).flatten().tolist()), strict=True):
            head.append(part)
    offsets = pad(torch.cat(counts, 2).flatten().cumsum(0), (1, 0))
    every = torch.cat([part for head in heads for part in head])
    return Graph(grid, (Pairs(offsets, every, grid.batch, grid.heads, grid.m),))


def rows_of(chosen: Bool[Tensor, "batch heads count m"]) -> Listed:
    """The keys that are chosen, listed."""
    return chosen.sum(-1), chosen.nonzero()[:, 3]


def pairs_of(chosen: Callable[[slice], Bool[Tensor, "batch heads count m"]], grid: Grid) -> Graph:
    """The pairs that are chosen and may be seen."""
    keys = torch.arange(grid.m, device=grid.device)
    # What a query may see are always the first keys.
    return listed(lambda some: rows_of(chosen(some) & (keys < grid.degrees()[:, None, some, None])), grid)
