"""Sparsefinder on blocks, v1: the nearest blocks of keys for each block of queries. Sec. 7 of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..core.graph import Graph, chunks
from ..core.layout import Grid, Layout
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Chunk, block_vectors
from .base import Finder, Keys, Queries, projected, refuse_decoding
from .global_tokens import GlobalTokens
from .random_blocks import check_blocks
from .tiles import check_chunk, chosen_blocks
from .window import Window

__all__ = ["BlockTopK"]


@dataclass(frozen=True, eq=False)
class BlockTopK(Finder):
    """A window, global tokens, and for each block of queries the k nearest of all other blocks of keys it may see.

    >>> BlockTopK(block=16, k=4, projection=projection)(q, k)

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do). The k do not
    count blocks that window and global tokens cover already.

    projection: learned by `learn(..., block=block, chunk=chunk)`; None for queries and keys as they are.
    score: whether blocks are near by their "distance", as the projection learns it, or their "product".
    """

    block: int
    k: int
    projection: Projection | None = None
    window: int = 0
    globals: int = 0
    score: Literal["distance", "product"] = "distance"
    chunk: Chunk = "mean"

    def __post_init__(self) -> None:
        check_blocks(self.k, self.block)
        check_chunk(self.chunk)
        if self.score not in ("distance", "product"):
            raise InputError("score", repr(self.score), '"distance" or "product"')

    @property
    def causal_safe(self) -> bool:
        # The mean of a block holds tokens after its first one.
        return False

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        refuse_decoding(self, layout)
        grid = layout.of(q, k)
        fixed = (Window(self.window) | GlobalTokens(self.globals))(q, k, layout)
        q, k = projected(self.projection, q, k)
        q = block_vectors(q, grid.layout.query_lengths, self.block, self.chunk)
        k = block_vectors(k, grid.layout.key_lengths, self.block, self.chunk)
        legal = _Legal(grid, self.block, self.window, self.globals)
        found = []
        for rows in chunks(q.shape[2], grid.batch * grid.heads * k.shape[2]):
            scores = q[:, :, rows] @ k.mT
            if self.score == "distance":
                scores = scores - k.square().sum(-1)[:, :, None] / 2
            scores = scores.masked_fill(~legal.of(rows), -math.inf)
            best, chosen = scores.topk(min(self.k, k.shape[2]), -1)
            found.append(torch.where(best > -math.inf, chosen, -1))
        if not found:
            return fixed
        return fixed | chosen_blocks(torch.cat(found, 2), self.block, self.block, grid)

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
