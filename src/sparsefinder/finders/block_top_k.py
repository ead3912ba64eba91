"""Sparsefinder on blocks, v1: for each block of queries the blocks of keys that score best. Sec. 6.1 of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Pooling
from .about import LEARNED, MAPS, About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .centroids import ranks, slots
from .checks import whole
from .fixed import fixed
from .reading import of_blocks
from .registry import register
from .tiles import check_pooling, chosen_blocks, compared_blocks, legal_blocks

__all__ = ["BlockTopK"]


@register
@dataclass(frozen=True, eq=False)
class BlockTopK(Finder):
    """A window, global tokens, and for each block of queries the k best of all other blocks of keys that it may see.

    >>> BlockTopK(block=16, k=4, projection=projection)(q, k)

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do). The k come
    besides: blocks that window and global tokens cover whole are not among them.

    k: one number for all heads, or one per head.
    score: blocks are compared by "product", as in the paper, or by "distance", which the projection is learned for.
    projection: learned by `learn(..., block=block, pooling=pooling)`; None for queries and keys as they are.

    On a GPU it waits for the device once, for how many blocks there are, and with a k per head for the largest.
    """

    block: int = field(metadata=MAPS)
    k: int | Int[Tensor, " heads"]
    window: int = 0
    globals: int = 0
    score: Literal["product", "distance"] = "product"
    pooling: Pooling = field(default="mean", metadata=MAPS)
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "block-topk", "blocks, top-k (v1)", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 6.1",
        besides=True, dials=(Dial("k", whole=True),), grid={"block": (16,)},
        words={"block": "blocks of {} token(s)", "k": "the best {} block(s)", "score": "by {}"},
        look=Look("#0b6e75", "#4fc3c9", "h"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        whole(0, k=self.k, window=self.window, globals=self.globals)
        check_pooling(self.pooling)
        if self.score not in ("product", "distance"):
            raise InputError("score", repr(self.score), '"product" or "distance"')

    @property
    def query_wise(self) -> bool:
        # The mean of a block holds tokens after its first one.
        return False

    def compared(self, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
        # Not the tokens are mapped but their blocks.
        return q, k

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        local = fixed(self.window, self.globals).on(q, k, grid)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        found = []
        for scores in self._scores(q, k, grid):
            best, chosen = scores.topk(min(most, scores.shape[-1]), -1)
            found.append(slots(torch.where(best > -math.inf, chosen, -1), self.k))
        return local | chosen_blocks(torch.cat(found, 2), self.block, self.block, grid) if found else local

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        covered = fixed(self.window, self.globals).on(q, k, grid).mask(queries)
        if not covered.numel():
            return covered.double()
        places = torch.cat([ranks(scores.argsort(-1, descending=True)) for scores in self._scores(q, k, grid)], 2)
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        columns = torch.arange(grid.m, device=grid.device) // self.block
        return torch.where(covered, 0.0, places[:, :, rows][..., columns].double())

    def _scores(self, q: Queries, k: Keys, grid: Grid) -> Iterator[Float[Tensor, "batch heads some blocks"]]:
        """Of some blocks of queries at a time with each block of keys; −∞ for what may not be taken."""
        q, k = compared_blocks(q, k, grid, self.block, self.pooling, self.projection)
        for rows in chunks(q.shape[2], grid.batch * grid.heads * k.shape[2]):
            scores = q[:, :, rows] @ k.mT
            if self.score == "distance":
                scores = scores - k.square().sum(-1)[:, :, None] / 2
            yield scores.masked_fill(~legal_blocks(grid, self.block, self.window, self.globals, rows), -math.inf)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        blocks = math.ceil(n / self.block) * math.ceil(m / self.block)
        return float(blocks) * self._size(d) + (0 if self.projection is None else (n + m) * d * r)

    def reads(self, n: int, m: int, d: int) -> float:
        return of_blocks(n, m, self.block, self._size(d))

    def _size(self, d: int) -> int:
        """How many numbers a block has."""
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return r * (self.block if self.pooling == "concat" else 1)
