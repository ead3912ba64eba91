"""FlexPrefill: blocks by mass where means are right, lines elsewhere. Lai et al., 2025, arXiv:2502.20766."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.sample import block_vectors
from .about import About, Dial, Look
from .base import Keys, Queries, Settings
from .block_mass import BlocksByMass, mass_before, softmax_seen, within
from .checks import at_least
from .last_queries import LastQueries, graph_of_lines, needed_of_lines
from .reading import of_keys
from .registry import register
from .tiles import compared_blocks, legal_blocks

__all__ = ["FlexPrefill"]


@register
@dataclass(frozen=True, eq=False)
class FlexPrefill(BlocksByMass):
    """Give queries the fewest blocks with a share of the mass of means; where means mislead, the fewest lines with it.

    >>> FlexPrefill(block=64, mass=0.9)(q, k)

    The last `block` queries try both: the softmax of their mean query with the mean key of each block, and their true
    weights, summed over blocks. Where these are near each other (the root of the Jensen–Shannon divergence, in natural
    logarithms, is below `divergence`), a head is query-aware: all blocks of the whole map compete, by the softmax of
    mean queries and mean keys. Any other head is vertical-slash: it gets the fewest columns and the fewest diagonals
    that have the share of the true weights of the last queries.

    Columns and diagonals are single ones, as in the paper; its code widens them to blocks, and takes at least so many
    of each, the first column and the own diagonal among them: here that is left to what the finder is united with.

    mass: one share for all heads, or one per head; γ in the paper.
    divergence: 0 for vertical-slash heads alone, 1 for query-aware ones alone; τ in the paper.
    """

    divergence: int | float = 0.1

    about = About(
        "flexprefill", "FlexPrefill", "rival", compares="scores", paper="Lai et al., 2025, arXiv:2502.20766",
        dials=(Dial("mass", most=1),), grid={"block": (16,)},
        words={
            "block": "blocks of {} token(s)", "mass": "with {%} of the mass",
            "divergence": "query-aware up to a divergence of {}",
        },
        look=Look("#b71c1c", "#ff6f60", "."),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, divergence=self.divergence)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        blocks = super().find(q, k, grid)
        if not grid.n * grid.m:
            return blocks
        columns, diagonals = (within(each, self.mass) for each in self._lines(q, k, grid))
        return blocks | graph_of_lines(columns, diagonals, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        blocks = super().needed(q, k, grid, queries)
        if not blocks.numel():
            return blocks
        return torch.minimum(blocks, needed_of_lines(*self._lines(q, k, grid), grid, queries))

    def least(self, q: Queries, k: Keys, grid: Grid, rows: slice) -> Float[Tensor, "batch heads some columns"]:
        queries, keys = compared_blocks(q, k, grid, self.block, "mean", None)
        weights = softmax_seen(queries @ keys.mT * self.factor(q.shape[-1]), legal_blocks(grid, self.block, 0, 0))
        least = mass_before(weights.flatten(2)).view(weights.shape)[:, :, rows]
        aware = self._aware(self._last(q, k, grid), k)
        return least.masked_fill(~aware[..., None, None], math.inf)

    def _lines(
        self, q: Queries, k: Keys, grid: Grid
    ) -> tuple[Float[Tensor, "batch heads m"], Float[Tensor, "batch heads span"]]:
        """The least mass with which a vertical-slash head takes each column and each diagonal; infinite for never."""
        last = self._last(q, k, grid)
        aware = self._aware(last, k)[..., None]
        columns, diagonals = (
            mass_before(sums.clamp(min=0)).masked_fill(aware | (sums == -math.inf), math.inf)
            for sums in (last.columns(), last.diagonals())
        )
        return columns, diagonals

    def _last(self, q: Queries, k: Keys, grid: Grid) -> LastQueries:
        return LastQueries.of(q, k, grid, self.block, self.factor(q.shape[-1]))

    def _aware(self, last: LastQueries, k: Keys) -> Bool[Tensor, "batch heads"]:
        """Which heads are query-aware: means of blocks say nearly what the last queries give them."""
        lengths, spare = last.grid.layout.key_lengths, -last.grid.m % self.block
        means = block_vectors(k.to(last.queries.dtype), lengths, self.block)
        seen = pad(last.seen.any(1), (0, spare)).unflatten(-1, (-1, self.block)).any(-1)
        scores = (means @ last.mean()[..., None])[..., 0] * self.factor(k.shape[-1])
        guess = softmax_seen(scores, seen[:, None]).double()
        true = pad(last.weights.sum(2), (0, spare)).unflatten(-1, (-1, self.block)).sum(-1).double()
        true = true / true.sum(-1, keepdim=True).clamp(min=1e-300)
        middle = ((guess + true) / 2).clamp(min=1e-300)
        divergence = sum(torch.xlogy(each, each / middle).sum(-1) / 2 for each in (guess, true))
        return torch.as_tensor(divergence).clamp(min=0).sqrt() < self.divergence

    def cost(self, n: int, m: int, d: int) -> float:
        blocks = float(-(-n // self.block)) * -(-m // self.block)
        return min((float(min(self.block, n)) * m + blocks) * d, float(n) * m * d)

    def reads(self, n: int, m: int, d: int) -> float:
        of_last = of_keys(m, d) * min(self.block, n) / max(1, n)
        return min(super().reads(n, m, d) + of_last, of_keys(m, d))
