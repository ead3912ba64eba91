"""SpargeAttention: blocks by the mass of means, where these stand for them. Zhang et al., 2025, arXiv:2502.18137."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..core.layout import Grid
from ..learning.sample import block_vectors
from .about import About, Dial, Look
from .base import Keys, Queries
from .block_mass import BlocksByMass, mass_before, softmax_seen
from .checks import between
from .registry import register
from .tiles import legal_blocks

__all__ = ["SpargeAttention"]


@register
@dataclass(frozen=True, eq=False)
class SpargeAttention(BlocksByMass):
    """Give each block of queries the fewest blocks of keys with a share of the mass of means, and all unlike blocks.

    >>> SpargeAttention(block=64, mass=0.9, similarity=0.6)(q, k)

    Softmax of the scores of mean queries and mean keys is what blocks weigh. A mean says little of a block whose tokens
    are unlike each other: where the mean cosine of two of them is not above `similarity`, a block of keys is given to
    all queries and counts for no mass, and a block of queries gets all keys. Keys are compared after the mean of all
    keys is taken off, as in the authors' code; no softmax sees the difference.

    Blocks of queries are as long as those of keys (in the paper, 128 and 64). What the paper skips later, while it
    computes the outputs of blocks that are taken, is no choice of pairs that could be known before.

    mass: one share for all heads, or one per head.
    """

    similarity: int | float = 0.6

    about = About(
        "spargeattention", "SpargeAttention", "rival", compares="scores", paper="Zhang et al., 2025, arXiv:2502.18137",
        dials=(Dial("mass", most=1),), grid={"block": (16,), "similarity": (0.1, 0.6)},
        words={
            "block": "blocks of {} token(s)", "mass": "with {%} of the mass",
            "similarity": "means where cosines are above {}",
        },
        look=Look("#6d4c41", "#d7bfb5", "+"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        between(-1, 1, similarity=self.similarity)

    def least(self, q: Queries, k: Keys, grid: Grid, rows: slice) -> Float[Tensor, "batch heads some columns"]:
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
        of_queries, of_keys = grid.layout.query_lengths, grid.layout.key_lengths
        k = k - block_vectors(k, of_keys, max(grid.m, 1))
        queries, keys = block_vectors(q, of_queries, self.block)[:, :, rows], block_vectors(k, of_keys, self.block)
        like = self._alike(k, of_keys)[:, :, None]
        scores = queries @ keys.mT * self.factor(q.shape[-1])
        least = mass_before(softmax_seen(scores, like & legal_blocks(grid, self.block, 0, 0, rows)))
        return torch.where(like & self._alike(q, of_queries)[:, :, rows, None], least, 0.0)

    def _alike(
        self, tokens: Float[Tensor, "batch heads length d"], lengths: Int[Tensor, " batch"] | None
    ) -> Bool[Tensor, "batch heads blocks"]:
        """Which blocks have tokens that are like each other: the mean cosine is a mean's length, squared."""
        means = block_vectors(torch.nn.functional.normalize(tokens, dim=-1), lengths, self.block)
        return means.square().sum(-1) > self.similarity

    def cost(self, n: int, m: int, d: int) -> float:
        blocks = float(-(-n // self.block)) * -(-m // self.block)
        return min(blocks * d + 2.0 * (n + m) * d, float(n) * m * d)
