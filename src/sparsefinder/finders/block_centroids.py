"""Sparsefinder on blocks, v2: each centroid takes its nearest blocks of queries and of keys. Sec. 7 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.projection import Projection
from ..learning.sample import Pooling, Sample, block_vectors, pooled
from .about import FIT, LEARNED, MAPS, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings, slots
from .centroids import check_centroids, cluster, first_in_common, ranks
from .checks import whole
from .registry import register
from .tiles import check_pooling, chosen_blocks

__all__ = ["BlockCentroids"]

RESTARTS = 10


@register
@dataclass(frozen=True, eq=False)
class BlockCentroids(Learned):
    """Connect the k blocks of queries and the k blocks of keys that are nearest to the same centroid.

    >>> BlockCentroids(block=16, k=4, clusters=8).fit([Sample(q, k)])(q, k)

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do), and
    centroids with them. A block that no centroid takes has no keys: unite it with a window.

    k: one number for all heads, or one per head.
    projection: learned by `learn(..., block=block, pooling=pooling)`; None for queries and keys as they are.
    """

    block: int = field(metadata=MAPS)
    k: int | Int[Tensor, " heads"]
    clusters: int = field(metadata=FIT)
    pooling: Pooling = field(default="mean", metadata=MAPS)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters size"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "block-centroids", "blocks, centroids (v2)", "paper", compares="closeness",
        paper="Treviso et al., 2022, Sec. 7", dials=(Dial("k", whole=True),), grid={"block": (16,), "clusters": (8,)},
        look=Look("#9b2335", "#f0808c", "d"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        whole(0, k=self.k)
        check_pooling(self.pooling)
        check_centroids(self.clusters, self.centroids)

    @property
    def query_wise(self) -> bool:
        return False

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> BlockCentroids:
        """Cluster the blocks of queries and keys of each head together."""
        pool = pooled(self._blocks_of(samples), how.tokens, how.seed)
        return replace(self, centroids=cluster(pool, self.clusters, how.restarts or RESTARTS, how.seed))

    def _blocks_of(self, samples: Iterable[Sample]) -> Iterator[tuple[Tensor, Tensor]]:
        """The block vectors of queries and of keys, and which blocks have a real token."""
        for sample in self.mapped(samples):
            lengths = sample.layout.query_lengths, sample.layout.key_lengths
            for (tokens, real), ends in zip((sample.queries, sample.keys), lengths, strict=True):
                yield block_vectors(tokens, ends, self.block, self.pooling), real[:, :: self.block]

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
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

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        of_queries, of_keys = (
            ranks(self._nearness(tokens, lengths).argsort(-1, descending=True)).mT
            for tokens, lengths in ((q, grid.layout.query_lengths), (k, grid.layout.key_lengths))
        )
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        columns = torch.arange(grid.m, device=grid.device) // self.block
        return first_in_common(of_queries, of_keys)[:, :, rows][..., columns]

    def _taken(self, tokens: Tensor, lengths: Int[Tensor, " batch"] | None) -> Int[Tensor, "batch heads clusters k"]:
        """The blocks that each centroid takes, of those with a real token; −1 for none."""
        near = self._nearness(tokens, lengths)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        best, chosen = near.topk(min(most, near.shape[-1]), -1)
        return slots(torch.where(best > -torch.inf, chosen, -1), self.k)

    def _nearness(
        self, tokens: Tensor, lengths: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch heads clusters blocks"]:
        """How near each block is to each centroid; −∞ for a block without a real token."""
        assert self.centroids is not None
        vectors = block_vectors(tokens, lengths, self.block, self.pooling)
        near = self.centroids.to(vectors.dtype) @ vectors.mT - vectors.square().sum(-1)[:, :, None] / 2
        if lengths is None:
            return near
        real = torch.arange(vectors.shape[2], device=vectors.device) * self.block < lengths[:, None]
        return near.masked_fill(~real[:, None, None], -torch.inf)

    def cost(self, n: int, m: int, d: int) -> float:
        size = d if self.centroids is None else self.centroids.shape[-1]
        r = size // (self.block if self.pooling == "concat" else 1)
        blocks = -(-n // self.block) - (-m // self.block)
        return float(blocks) * size * self.clusters + (0 if self.projection is None else (n + m) * d * r)
