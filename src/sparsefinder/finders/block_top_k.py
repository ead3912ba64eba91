"""Sparsefinder on blocks, v1: the nearest blocks of keys for each block of queries. Sec. 7 of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph, chunks
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Pooling, block_vectors
from .about import LEARNED, MAPS, About, Dial, Look
from .base import Finder, Keys, Queries, Settings, slots
from .centroids import ranks
from .checks import whole
from .global_tokens import GlobalTokens
from .registry import register
from .tiles import check_pooling, chosen_blocks
from .window import Window

__all__ = ["BlockTopK"]


@register
@dataclass(frozen=True, eq=False)
class BlockTopK(Finder):
    """A window, global tokens, and for each block of queries the k nearest of all other blocks of keys it may see.

    >>> BlockTopK(block=16, k=4, projection=projection)(q, k)

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do). The k do not
    count blocks that window and global tokens cover already.

    k: one number for all heads, or one per head.
    score: whether blocks are near by their "distance", as the projection learns it, or their "product".
    projection: learned by `learn(..., block=block, pooling=pooling)`; None for queries and keys as they are.
    """

    block: int = field(metadata=MAPS)
    k: int | Int[Tensor, " heads"]
    window: int = 0
    globals: int = 0
    score: Literal["distance", "product"] = "distance"
    pooling: Pooling = field(default="mean", metadata=MAPS)
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "block-topk", "blocks, top-k (v1)", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 7",
        dials=(Dial("k", whole=True),), grid={"block": (16,)}, look=Look("#0b6e75", "#4fc3c9", "h"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        whole(0, k=self.k, window=self.window, globals=self.globals)
        check_pooling(self.pooling)
        if self.score not in ("distance", "product"):
            raise InputError("score", repr(self.score), '"distance" or "product"')

    @property
    def query_wise(self) -> bool:
        # The mean of a block holds tokens after its first one.
        return False

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        fixed = self._fixed(q, k, grid)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        found = []
        for scores in self._scores(q, k, grid):
            best, chosen = scores.topk(min(most, scores.shape[-1]), -1)
            found.append(slots(torch.where(best > -math.inf, chosen, -1), self.k))
        return fixed | chosen_blocks(torch.cat(found, 2), self.block, self.block, grid) if found else fixed

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        covered = self._fixed(q, k, grid).mask(queries)
        if not covered.numel():
            return covered.double()
        places = torch.cat([ranks(scores.argsort(-1, descending=True)) for scores in self._scores(q, k, grid)], 2)
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        columns = torch.arange(grid.m, device=grid.device) // self.block
        return torch.where(covered, 0.0, places[:, :, rows][..., columns].double())

    def _fixed(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return (Window(self.window) | GlobalTokens(self.globals)).on(q, k, grid)

    def _scores(self, q: Queries, k: Keys, grid: Grid) -> Iterator[Float[Tensor, "batch heads some blocks"]]:
        """Of some blocks of queries at a time with each block of keys; −∞ for what may not be taken."""
        q = block_vectors(q, grid.layout.query_lengths, self.block, self.pooling)
        k = block_vectors(k, grid.layout.key_lengths, self.block, self.pooling)
        legal = _Legal(grid, self.block, self.window, self.globals)
        for rows in chunks(q.shape[2], grid.batch * grid.heads * k.shape[2]):
            scores = q[:, :, rows] @ k.mT
            if self.score == "distance":
                scores = scores - k.square().sum(-1)[:, :, None] / 2
            yield scores.masked_fill(~legal.of(rows), -math.inf)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        blocks = math.ceil(n / self.block) * math.ceil(m / self.block)
        return float(blocks) * r + (0 if self.projection is None else (n + m) * d * r)


@dataclass(frozen=True)
class _Legal:
    """Which blocks of keys a block of queries may see, and does not have whole through window and global tokens."""

    grid: Grid
    block: int
    window: int
    global_tokens: int

    def of(self, blocks: slice) -> Tensor:
        grid, block = self.grid, self.block
        b = torch.arange(grid.batch, device=grid.device)[:, None]
        rows = torch.arange(blocks.start, blocks.stop, device=grid.device)
        other = torch.arange(-(-grid.m // block), device=grid.device)
        degrees = torch.nn.functional.pad(grid.degrees(), (0, -grid.n % block)).unflatten(1, (-1, block)).amax(-1)
        legal = other * block < degrees[:, rows, None]
        legal = legal & ((other + 1) * block > self.global_tokens)
        if self.window:
            # The pairs farthest apart are at two corners of a block.
            lead = (grid.position(b, rows * block)[..., None] - other * block).abs() + block - 1
            legal = legal & (lead > self.window // 2)
        return legal[:, None]
