"""Distance-based pairing: near in the projected space. Sec. 4.2 of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import CHUNK, Graph, tiles
from ..core.layout import Grid
from ..learning.projection import Projection
from .about import LEARNED, About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import at_least, rounded_down
from .registry import register

__all__ = ["Distance"]

# Below this many pairs, comparing all is quicker than building an index.
SMALL = 1 << 21
# What a pair that the index names costs, in units of one pair when all are compared: an estimate.
LISTED = 8.0
# Cells in at most so many dimensions: a query looks into 3^dimensions of them.
CELL_DIMENSIONS = 4
# Cells along a dimension at most, so that their numbers fit into 64 bits.
CELLS = 1 << 10


@register
@dataclass(frozen=True, eq=False)
class Distance(Finder):
    """Connect each query to the keys at a Euclidean distance of at most t from it, after projection.

    >>> Distance(1.0, projection=projection)(q, k)

    t: one distance for all heads, or one per head.
    squared: compare the squared distance with t, as the authors' code does.
    projection: where distances are measured; None for the queries and keys as they are.
    """

    t: int | float | Float[Tensor, " heads"]
    squared: bool = False
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "distance", "distance", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 4.2",
        dials=(Dial("t", every_pair=True),), look=Look("#c84e00", "#ff8f4d", "o"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        at_least(0, t=self.t)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        t = torch.as_tensor(self.t, dtype=torch.float64, device=q.device).expand(grid.heads).repeat(grid.batch)
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        limit = rounded_down(t if self.squared else t.square(), q.dtype)
        found = None
        if grid.batch * grid.heads * grid.n * grid.m > SMALL:
            found = _near_by_cells(q, k, limit, grid)
        return Graph.of_numbers(_near_by_all(q, k, limit, grid) if found is None else found, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        apart = _apart(q[:, :, queries, None], k[:, :, None]).double()
        if self.squared:
            return apart
        root = apart.sqrt()
        # The root of a number may be rounded down to one whose square is below it.
        return torch.where(root.square() < apart, torch.nextafter(root, torch.full_like(root, torch.inf)), root)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return float(n) * m * r + (0 if self.projection is None else (n + m) * d * r)


def _near_by_all(q: Tensor, k: Tensor, limit: Tensor, grid: Grid) -> Int[Tensor, " pairs"]:
    """The pairs within the limit as numbers, row · m + key: all are compared, some queries at a time."""
    found = [torch.zeros(0, dtype=torch.long, device=q.device)]
    for heads, queries in tiles(len(q), grid.n, grid.m):
        near = _apart(q[heads, queries, None], k[heads, None]) <= limit[heads, None, None]
        first = (heads.start * grid.n + queries.start) * grid.m
        entries = first + near.flatten().nonzero().squeeze(-1)
        found.append(entries[_visible(entries, grid)])
    return torch.cat(found)


def _near_by_cells(q: Tensor, k: Tensor, limit: Tensor, grid: Grid) -> Int[Tensor, " pairs"] | None:
    """The same pairs, through cells as wide as the radius: whatever is near lies in the own cell or one beside it.

    Keys are sorted by cell. The cells before, at and after a query's own in the last dimension are one run of them, so
    a query reads 3^(dimensions − 1) runs. None if the runs hold so much that comparing all is no slower.
    """
    both = torch.cat([q, k], 1).double()
    low, high = both.amin((0, 1)), both.amax((0, 1))
    dims = (high - low).topk(min(CELL_DIMENSIONS, q.shape[-1])).indices
    # A little wider than the radius: a distance may be rounded down to it.
    width = torch.clamp((high - low)[dims] / CELLS, min=math.sqrt(float(limit.amax())) * (1 + 1e-6)).clamp(min=1e-300)
    cells = ((both[..., dims] - low[dims]) / width).long() + 1
    sizes = cells.amax((0, 1)) + 2
    strides = torch.cat([sizes.flip(0).cumprod(0).flip(0)[1:], sizes.new_ones(1)])
    head = torch.arange(len(q), device=q.device)[:, None] * sizes.prod()
    numbers = (cells * strides).sum(-1) + head
    of_queries, (of_keys, order) = numbers[:, : grid.n].flatten(), numbers[:, grid.n :].flatten().sort()
    others = len(dims) - 1
    # −1, 0 or 1 in each dimension but the last: the digits of the numbers below 3^others.
    powers = 3 ** torch.arange(others, device=q.device)
    steps = torch.arange(3**others, device=q.device)[:, None] // powers % 3 - 1
    middle = of_queries[:, None] + (steps * strides[:-1]).sum(-1)
    begin = torch.searchsorted(of_keys, middle - 1)
    count = torch.searchsorted(of_keys, middle + 1, right=True) - begin
    if int(count.sum()) * LISTED > len(of_queries) * grid.m:
        return None
    found = [torch.zeros(0, dtype=torch.long, device=q.device)]
    flat_q, flat_k = q.flatten(0, 1), k.flatten(0, 1)
    ends = count.sum(-1).cumsum(0)
    start = 0
    while start < len(of_queries):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(ends, torch.tensor(done + CHUNK, device=q.device), right=True)))
        runs = count[start:stop].flatten()
        row = torch.repeat_interleave(torch.arange(start, stop, device=q.device), count[start:stop].sum(-1))
        inside = torch.arange(len(row), device=q.device) - torch.repeat_interleave(runs.cumsum(0) - runs, runs)
        key = order[torch.repeat_interleave(begin[start:stop].flatten(), runs) + inside]
        near = _apart(flat_q[row], flat_k[key]) <= limit[row // grid.n]
        entries = row[near] * grid.m + key[near] % grid.m
        found.append(entries[_visible(entries, grid)])
        start = stop
    return torch.cat(found)


def _apart(q: Float[Tensor, "*shape r"], k: Float[Tensor, "*shape2 r"]) -> Tensor:
    """The squared distance of two: dimension by dimension, so that every way here rounds alike."""
    total: Tensor | None = None
    for one, two in zip(q.unbind(-1), k.unbind(-1), strict=True):
        square = (one - two).square_()
        total = square if total is None else total.add_(square)
    assert total is not None
    return total


def _visible(entries: Int[Tensor, " pairs"], grid: Grid) -> Tensor:
    row = entries // grid.m
    return grid.visible(row // (grid.heads * grid.n), row % grid.n, entries % grid.m)
