"""Sparsefinder on blocks, v2: each centroid takes its nearest blocks of queries and of keys. Sec. 7 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Layout
from ..learning.projection import Projection
from ..learning.sample import Chunk, Sample, block_vectors, pooled
from .base import Finder, Keys, Queries, projected, refuse_decoding
from .k_means import cluster
from .random_blocks import check_blocks
from .tiles import check_chunk, chosen_blocks

__all__ = ["BlockCentroids"]


@dataclass(frozen=True, eq=False)
class BlockCentroids(Finder):
    """Connect the k blocks of queries and the k blocks of keys that are nearest to the same centroid.

    >>> BlockCentroids.fit([Sample(q, k)], block=16, k=4, clusters=8)(q, k)

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do), and
    centroids with them. A block that no centroid takes has no keys: unite it with a window.

    projection: learned by `learn(..., block=block, chunk=chunk)`; None for queries and keys as they are.
    """

    block: int
    k: int
    centroids: Float[Tensor, "heads clusters size"]
    projection: Projection | None = None
    chunk: Chunk = "mean"

    def __post_init__(self) -> None:
        check_blocks(self.k, self.block)
        check_chunk(self.chunk)

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        block: int,
        k: int,
        clusters: int,
        projection: Projection | None = None,
        chunk: Chunk = "mean",
        *,
        restarts: int = 10,
        most: int = 20_000,
        seed: int = 0,
    ) -> BlockCentroids:
        """Cluster the blocks of queries and keys of each head together; at most `most` of them, drawn at random."""
        check_blocks(k, block)
        blocks = pooled(_blocks_of(samples, projection, block, chunk), most, seed)
        return cls(block, k, cluster(blocks, clusters, restarts, seed), projection, chunk)

    @property
    def causal_safe(self) -> bool:
        return False

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        refuse_decoding(self, layout)
        grid = layout.of(q, k)
        q, k = projected(self.projection, q, k)
        queries = self._taken(q, grid.layout.query_lengths)
        keys = self._taken(k, grid.layout.key_lengths)
        # Every block of queries that a centroid takes gets the blocks of keys that it takes.
        rows = -(-grid.n // self.block)
        taken = torch.zeros(grid.batch, grid.heads, rows + 1, keys.shape[2], dtype=torch.bool, device=grid.device)
        taken.scatter_(2, torch.where(queries < 0, rows, queries).mT, True)
        clusters = torch.where(taken[:, :, :rows], torch.arange(keys.shape[2], device=grid.device), -1)
        lists = torch.nn.functional.pad(keys, (0, 0, 0, 1), value=-1)
        b, h = (torch.arange(size, device=grid.device) for size in (grid.batch, grid.heads))
        chosen = lists[b[:, None, None, None], h[:, None, None], clusters].flatten(3)
        return chosen_blocks(chosen, self.block, self.block, grid)

    def _taken(self, tokens: Tensor, lengths: Int[Tensor, " batch"] | None) -> Int[Tensor, "batch heads clusters k"]:
        """The blocks that each centroid takes, of those with a real token; −1 for none."""
        vectors = block_vectors(tokens, lengths, self.block, self.chunk)
        centroids = self.centroids.to(vectors.dtype)
        distance = centroids @ vectors.mT - vectors.square().sum(-1)[:, :, None] / 2
        blocks = torch.arange(vectors.shape[2], device=vectors.device)
        if lengths is not None:
            real = blocks * self.block < lengths[:, None]
            distance = distance.masked_fill(~real[:, None, None], -torch.inf)
        best, chosen = distance.topk(min(self.k, vectors.shape[2]), -1)
        return torch.where(best > -torch.inf, chosen, -1)

    def cost(self, n: int, m: int, d: int) -> float:
        _, clusters, size = self.centroids.shape
        r = size // (self.block if self.chunk == "concat" else 1)
        blocks = -(-n // self.block) - (-m // self.block)
        return float(blocks) * size * clusters + (0 if self.projection is None else (n + m) * d * r)


def _blocks_of(
    samples: Iterable[Sample], projection: Projection | None, block: int, chunk: Chunk
) -> Iterator[tuple[Tensor, Tensor]]:
    """The block vectors of queries and of keys, and which blocks have a real token."""
    for sample in samples:
        q, k = projected(projection, sample.q, sample.k)
        for tokens, lengths, real in (
            (q, sample.layout.query_lengths, sample.real_queries()),
            (k, sample.layout.key_lengths, sample.real_keys()),
        ):
            yield block_vectors(tokens, lengths, block, chunk), real[:, ::block]
