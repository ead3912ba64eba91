"""XAttention: blocks by the mass of sums along antidiagonals. Xu et al., 2025, arXiv:2503.16428."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.layout import Grid
from ..errors import InputError
from ..learning.sample import block_vectors
from .about import About, Dial, Look
from .base import Keys, Queries
from .block_mass import BlocksByMass, mass_before, softmax_seen
from .checks import whole
from .reading import of_keys
from .registry import register
from .tiles import legal_blocks

__all__ = ["XAttention"]


@register
@dataclass(frozen=True, eq=False)
class XAttention(BlocksByMass):
    """Give each block of queries the fewest blocks of keys with a share of the mass, by sums along antidiagonals.

    >>> XAttention(block=64, mass=0.9, stride=8)(q, k)

    Queries and keys come in groups of `stride`. The scores of the first query with the last key of a group, of the
    second with the last but one, and so on, are added up; softmax of their means over the groups of keys that may be
    seen, summed over a block, is what the block weighs. So every query and every key counts, in a share of the pairs.

    Tokens that are missing in the last group count as zeros, as in the authors' code, which also takes the first block
    and the block of the query itself in any case: here that is left to what the finder is united with.

    mass: one share for all heads, or one per head.
    stride: has to divide the block.
    """

    stride: int = 8

    about = About(
        "xattention", "XAttention", "rival", compares="scores", paper="Xu et al., 2025, arXiv:2503.16428",
        dials=(Dial("mass", most=1),), grid={"block": (16,), "stride": (8,)},
        words={"block": "blocks of {} token(s)", "mass": "with {%} of the mass", "stride": "stride {}"},
        look=Look("#ad1457", "#ff9ec7", "x"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, stride=self.stride)
        if self.block % self.stride:
            raise InputError("stride", self.stride, f"a number that divides the block of {self.block}")

    @property
    def estimates(self) -> int:
        return (self.block // self.stride) ** 2

    def least(self, q: Queries, k: Keys, grid: Grid, rows: slice) -> Float[Tensor, "batch heads some columns"]:
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
        parts = self.block // self.stride
        groups = slice(rows.start * parts, min(rows.stop * parts, -(-grid.n // self.stride)))
        layout = grid.layout
        queries = block_vectors(q, layout.query_lengths, self.stride, "concat")[:, :, groups]
        # Laid end to end the other way round, so that one product adds up an antidiagonal.
        queries = queries.unflatten(-1, (self.stride, -1)).flip(-2).flatten(-2)
        keys = block_vectors(k, layout.key_lengths, self.stride, "concat")
        scores = queries @ keys.mT * (self.factor(q.shape[-1]) / self.stride)
        weights = softmax_seen(scores, legal_blocks(grid, self.stride, 0, 0, groups))
        spare = (0, -weights.shape[3] % parts, 0, -weights.shape[2] % parts)
        blocks = torch.nn.functional.pad(weights, spare).unflatten(3, (-1, parts)).unflatten(2, (-1, parts))
        return mass_before(blocks.sum((3, 5)))

    def cost(self, n: int, m: int, d: int) -> float:
        return -(-n // self.stride) * float(-(-m // self.stride)) * self.stride * d

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, d) * -(-n // self.stride) / max(1, n)
