"""Distance-based pairing: near in the projected space. Sec. 4.2 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import CHUNK, Graph, tiles
from ..core.layout import Grid, Layout
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .base import Finder, Keys, Queries, projected

__all__ = ["Distance"]

# Below this many pairs, comparing all is quicker than building an index.
SMALL = 1 << 21
# What a pair that the index names costs, in units of one pair when all are compared: an estimate.
INDEX = 8.0
# Cells in at most so many dimensions: a query looks into 3^dimensions of them.
CELL_DIMENSIONS = 4
# Cells along a dimension at most, so that their numbers fit into 64 bits.
CELLS = 1 << 10


@dataclass(frozen=True, eq=False)
class Distance(Finder):
    """Connect each query to the keys at a Euclidean distance of at most t from it, after projection.

    >>> Distance(1.0, projection)(q, k)
    >>> Distance.fit([Sample(q, k)], 0.1, projection)(q, k).sparsity()  # about 0.9 in every head

    t: one distance for all heads, or one for each.
    projection: where distances are measured; None for the queries and keys as they are.
    squared: compare the squared distance with t, as the authors' code does.
    """

    t: float | Float[Tensor, " heads"]
    projection: Projection | None = None
    squared: bool = False

    def __post_init__(self) -> None:
        if not bool((torch.as_tensor(self.t) >= 0).all()):
            raise InputError("t", self.t, "a distance from 0 upwards")

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        share: float,
        projection: Projection | None = None,
        *,
        most: int = 2000,
        seed: int = 0,
    ) -> Distance:
        """The distance within which this share of the pairs of a head lies, of (at most `most`) queries and keys.

        One distance for all heads gives some of them many more pairs than others, which costs recall.
        """
        if not 0 < share <= 1:
            raise InputError("share", share, "a share of the pairs, above 0 and up to 1")
        sides = [
            pooled(((part[side], real[side]) for part, real in _parts(samples, projection)), most, seed)
            for side in range(2)
        ]
        apart = torch.cdist(sides[0], sides[1]).flatten(1)
        return cls(apart.kthvalue(max(1, round(share * apart.shape[1])), -1).values, projection)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        q, k = projected(self.projection, q, k)
        t = torch.as_tensor(self.t, dtype=torch.float64, device=q.device).expand(grid.heads)
        radius = (t.sqrt() if self.squared else t).repeat(grid.batch)
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        found = None
        if grid.batch * grid.heads * grid.n * grid.m > SMALL:
            found = _near_by_cells(q, k, radius, grid)
        return Graph.of_numbers(_near_by_all(q, k, radius, grid) if found is None else found, grid)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return float(n) * m * r + (0 if self.projection is None else (n + m) * d * r)


def _near_by_all(q: Tensor, k: Tensor, radius: Tensor, grid: Grid) -> Int[Tensor, " pairs"]:
    """The pairs within the radius as numbers, row · m + key: all are compared, some queries at a time."""
    found = [torch.zeros(0, dtype=torch.long, device=q.device)]
    for heads, queries in tiles(len(q), grid.n, grid.m):
        near = _within(q[heads, queries, None], k[heads, None], radius[heads, None, None])
        first = (heads.start * grid.n + queries.start) * grid.m
        entries = first + near.flatten().nonzero().squeeze(-1)
        found.append(entries[_visible(entries, grid)])
    return torch.cat(found)


def _near_by_cells(q: Tensor, k: Tensor, radius: Tensor, grid: Grid) -> Int[Tensor, " pairs"] | None:
    """The same pairs, through cells as wide as the radius: whatever is near lies in the own cell or one beside it.

    Keys are sorted by cell. The cells before, at and after a query's own in the last dimension are one run of them, so
    a query reads 3^(dimensions − 1) runs. None if the runs hold so much that comparing all is no slower.
    """
    both = torch.cat([q, k], 1).double()
    low, high = both.amin((0, 1)), both.amax((0, 1))
    dims = (high - low).topk(min(CELL_DIMENSIONS, q.shape[-1])).indices
    # A little wider than the radius: a distance may be rounded down to it.
    width = torch.clamp((high - low)[dims] / CELLS, min=float(radius.amax()) * (1 + 1e-6)).clamp(min=1e-300)
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
    if int(count.sum()) * INDEX > len(of_queries) * grid.m:
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
        near = _within(flat_q[row], flat_k[key], radius[row // grid.n])
        entries = row[near] * grid.m + key[near] % grid.m
        found.append(entries[_visible(entries, grid)])
        start = stop
    return torch.cat(found)


def _within(q: Float[Tensor, "*shape r"], k: Float[Tensor, "*shape2 r"], radius: Tensor) -> Tensor:
    """Whether two are within the radius: dimension by dimension, so that every way here rounds alike."""
    total: Tensor | None = None
    for one, two in zip(q.unbind(-1), k.unbind(-1), strict=True):
        square = (one - two).square_()
        total = square if total is None else total.add_(square)
    assert total is not None
    return total <= radius.square().to(total.dtype)


def _visible(entries: Int[Tensor, " pairs"], grid: Grid) -> Tensor:
    row = entries // grid.m
    return grid.visible(row // (grid.heads * grid.n), row % grid.n, entries % grid.m)


def _parts(
    samples: Iterable[Sample], projection: Projection | None
) -> Iterator[tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """Queries and keys, projected, and which of them are real."""
    for sample in samples:
        yield projected(projection, sample.q, sample.k), (sample.real_queries(), sample.real_keys())
