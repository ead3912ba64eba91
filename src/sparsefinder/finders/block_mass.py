"""Blocks by mass: the weights of blocks are estimated, and the best are taken until they have a share of the whole.

What several of today's methods have in common; they differ in the estimate.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, Place
from .base import Finder, Keys, Queries, Settings
from .checks import between, whole
from .reading import of_blocks
from .tiles import legal_blocks

__all__ = ["BlocksByMass", "mass_before", "softmax_seen", "within"]

# What is left when the better ones have this much less than all is rounding: with a mass of 1 everything is in.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class BlocksByMass(Finder):
    """Give each block of queries the fewest blocks of keys that have a share of the estimated weights.

    mass: the share, one for all heads or one per head.
    scale: what scores are multiplied by; 1 / √d if None.
    """

    block: int
    mass: int | float | Float[Tensor, " heads"]
    scale: float | None = field(default=None, metadata=RUN, kw_only=True)

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        between(0, 1, mass=self.mass)

    @property
    def query_wise(self) -> bool:
        # What is estimated is of whole blocks of queries.
        return False

    def at(self, place: Place) -> BlocksByMass:
        return replace(self, scale=place.scale)

    @abstractmethod
    def least(self, q: Queries, k: Keys, grid: Grid, rows: slice) -> Float[Tensor, "batch heads some columns"]:
        """The least mass with which each block of keys is taken, for some blocks of queries."""

    @property
    def estimates(self) -> int:
        """How many numbers are computed for a block of queries and a block of keys."""
        return 1

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        found = [within(self._legal(q, k, grid, some), self.mass) for some in self._parts(grid)]
        return Graph.blocks(torch.cat(found, 2), self.block, grid) if found else Graph(grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        start, stop, _ = queries.indices(grid.n)
        # Whole parts, as in `find`: a product is rounded differently where others are computed with it.
        parts = [
            some for some in self._parts(grid) if some.start * self.block < stop and start < some.stop * self.block
        ]
        if not parts:
            return q.new_zeros(grid.batch, grid.heads, stop - start, grid.m).double()
        least = torch.cat([self._legal(q, k, grid, some) for some in parts], 2)
        rows = torch.arange(start, stop, device=grid.device) // self.block - parts[0].start
        return least[:, :, rows][..., torch.arange(grid.m, device=grid.device) // self.block]

    def _parts(self, grid: Grid) -> Iterator[slice]:
        """The blocks of queries, so many at a time as there is room for."""
        rows, columns = (-(-size // self.block) for size in (grid.n, grid.m))
        return chunks(rows if columns else 0, grid.batch * grid.heads * columns * self.estimates)

    def _legal(self, q: Queries, k: Keys, grid: Grid, rows: slice) -> Float[Tensor, "batch heads some columns"]:
        """The least masses, infinite for blocks of which nothing may be seen."""
        legal = legal_blocks(grid, self.block, 0, 0, rows)
        return self.least(q, k, grid, rows).masked_fill(~legal, math.inf)

    def reads(self, n: int, m: int, d: int) -> float:
        return of_blocks(n, m, self.block, d)

    def factor(self, d: int) -> float:
        """What scores are multiplied by."""
        return 1 / math.sqrt(d) if self.scale is None else self.scale


def mass_before(masses: Float[Tensor, "*shape count"]) -> Float[Tensor, "*shape count"]:
    """The share of the mass that is in what has more than each: what has to be wanted for it to be taken too.

    So the best is always taken, and every other one unless the better ones have more than is wanted.
    """
    ordered, order = masses.double().sort(dim=-1, descending=True, stable=True)
    upto = ordered.cumsum(-1)
    before = torch.nn.functional.pad(upto[..., :-1], (1, 0)) / upto[..., -1:].clamp(min=1e-300)
    return torch.empty_like(before).scatter_(-1, order, before.clamp(max=1 - ROUNDING))


def softmax_seen(scores: Float[Tensor, "*shape"], seen: Bool[Tensor, "..."]) -> Float[Tensor, "*shape"]:
    """Softmax over what may be seen; zeros where that is nothing."""
    return scores.masked_fill(~seen, -math.inf).softmax(-1).nan_to_num(nan=0.0)


def within(
    least: Float[Tensor, "batch heads *shape"], setting: int | float | Shaped[Tensor, " heads"]
) -> Bool[Tensor, "batch heads *shape"]:
    """What is taken with a mass or another setting, or with that of each head."""
    limit = torch.as_tensor(setting, dtype=torch.float64, device=least.device).expand(least.shape[1])
    return least <= limit.view(-1, *(1 for _ in least.shape[2:]))
