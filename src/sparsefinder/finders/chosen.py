"""A graph of the pairs that a method chooses when it is asked about all keys of some queries at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid

__all__ = ["pairs_of"]


def pairs_of(chosen: Callable[[slice], Bool[Tensor, "batch heads count m"]], grid: Grid) -> Graph:
    """The pairs that are chosen and may be seen, listed: never are all of them in a matrix."""
    found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
    width, keys = grid.batch * grid.heads * grid.m, torch.arange(grid.m, device=grid.device)
    for queries in chunks(grid.n if width else 0, width):
        # What a query may see are always the first keys.
        seen = keys < grid.degrees()[:, None, queries, None]
        b, h, i, j = (chosen(queries) & seen).nonzero().unbind(-1)
        found.append(((b * grid.heads + h) * grid.n + i + queries.start) * grid.m + j)
    return Graph.of_numbers(torch.cat(found), grid)
