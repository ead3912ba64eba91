"""Sparsefinder on blocks, v2: each centroid takes its nearest blocks of queries and of keys. Sec. 6.1 of the paper."""

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
from .base import Fitting, Keys, Learned, Queries, Settings
from .centroids import check_centroids, cluster, ranks
from .checks import whole
from .fixed import fixed
from .registry import register
from .tiles import check_pooling, chosen_blocks, legal_blocks

__all__ = ["BlockCentroids"]

RESTARTS = 10


@register
@dataclass(frozen=True, eq=False)
class BlockCentroids(Learned):
    """A window, global tokens, and blocks of keys near the same centroids: at most k for each block of queries.

    >>> BlockCentroids(block=16, k=4, clusters=8).fit([Sample(q, k)])(q, k)

    Each centroid takes the k blocks of queries and the k blocks of keys that are nearest to it. A block of queries may
    share centroids with many blocks of keys, and keeps k of them: those that come first as k grows from 1, and of those
    that come together the nearest. So a higher k only adds. The k come besides: blocks that window and global tokens
    cover whole are not among them. A block that no centroid takes has no more than these.

    A block is the mean of its projected tokens, or they are laid end to end ("concat", as the authors do), and
    centroids with them.

    k: one number for all heads, or one per head.
    projection: learned by `learn(..., block=block, pooling=pooling)`; None for queries and keys as they are.

    On a GPU it waits for the device once, for how many blocks there are, and with a k per head for the largest.
    """

    block: int = field(metadata=MAPS)
    k: int | Int[Tensor, " heads"]
    clusters: int = field(metadata=FIT)
    window: int = 0
    globals: int = 0
    pooling: Pooling = field(default="mean", metadata=MAPS)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters size"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "block-centroids", "blocks, centroids (v2)", "paper", compares="closeness",
        paper="Treviso et al., 2022, Sec. 6.1", besides=True, dials=(Dial("k", whole=True),),
        grid={"block": (16,), "clusters": (8,)},
        words={"block": "blocks of {} token(s)", "k": "{} block(s) each", "clusters": "{} clusters"},
        look=Look("#9b2335", "#f0808c", "d"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        whole(0, k=self.k, window=self.window, globals=self.globals)
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
        local = fixed(self.window, self.globals).on(q, k, grid)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        least = self._least(q, k, grid, most)
        best, chosen = least.topk(min(most, least.shape[-1]), -1, largest=False)
        limit = self.k.to(grid.device)[:, None, None] if isinstance(self.k, Tensor) else self.k
        return local | chosen_blocks(torch.where(best <= limit, chosen, -1), self.block, self.block, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        covered = fixed(self.window, self.globals).on(q, k, grid).mask(queries)
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        columns = torch.arange(grid.m, device=grid.device) // self.block
        least = self._least(q, k, grid, max(grid.n, grid.m))
        return torch.where(covered, 0.0, least[:, :, rows][..., columns].double())

    def _least(self, q: Queries, k: Keys, grid: Grid, most: int) -> Float[Tensor, "batch heads rows columns"]:
        """The least k with which each block of queries gets each block of keys; infinite if it is more than `most`.

        It takes a centroid that has both, and a place among the first k blocks of keys in the order of the row.
        """
        queries = block_vectors(q, grid.layout.query_lengths, self.block, self.pooling)
        keys = block_vectors(k, grid.layout.key_lengths, self.block, self.pooling)
        legal = legal_blocks(grid, self.block, self.window, self.globals)
        common = queries.new_full((grid.batch, grid.heads, queries.shape[2] * keys.shape[2]), torch.inf)
        apart = common.clone()
        # Every centroid adds a patch: the blocks of queries by the blocks of keys that it takes, nearest first.
        of_queries = self._taken(queries, grid.layout.query_lengths, most)
        of_keys = self._taken(keys, grid.layout.key_lengths, most)
        for rows, columns in zip(of_queries.unbind(2), of_keys.unbind(2), strict=True):
            places = (rows[..., None] * keys.shape[2] + columns[..., None, :]).flatten(2)
            some_queries, some_keys = _picked(queries, rows), _picked(keys, columns)
            place, other = (torch.arange(1, x.shape[-1] + 1, device=grid.device) for x in (rows, columns))
            later = torch.maximum(place[:, None], other).to(common.dtype).flatten()
            common.scatter_reduce_(2, places, later.expand(places.shape), "amin")
            distance = some_keys.square().sum(-1)[:, :, None] / 2 - some_queries @ some_keys.mT
            apart.scatter_(2, places, distance.flatten(2))
        common, apart = (x.unflatten(2, (queries.shape[2], keys.shape[2])) for x in (common, apart))
        common = common.masked_fill(~legal, torch.inf)
        nearest = apart.argsort(dim=-1, stable=True)
        order = nearest.gather(-1, common.gather(-1, nearest).argsort(dim=-1, stable=True))
        return torch.maximum(common, ranks(order).to(common.dtype))

    def _taken(
        self, blocks: Tensor, lengths: Int[Tensor, " batch"] | None, most: int
    ) -> Int[Tensor, "batch heads clusters most"]:
        """The blocks that each centroid takes, nearest first; those without a real token last."""
        assert self.centroids is not None
        near = self.centroids.to(blocks.dtype) @ blocks.mT - blocks.square().sum(-1)[:, :, None] / 2
        if lengths is not None:
            real = torch.arange(blocks.shape[2], device=blocks.device) * self.block < lengths[:, None]
            near = near.masked_fill(~real[:, None, None], -torch.inf)
        return near.topk(min(most, blocks.shape[2]), -1).indices

    def cost(self, n: int, m: int, d: int) -> float:
        size = d if self.centroids is None else self.centroids.shape[-1]
        r = size // (self.block if self.pooling == "concat" else 1)
        queries, keys = -(-n // self.block), -(-m // self.block)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        pairs = min(most, queries) * min(most, keys)
        maps = 0 if self.projection is None else (n + m) * d * r
        return float(queries + keys + pairs) * size * self.clusters + maps


def _picked(vectors: Tensor, which: Int[Tensor, "batch heads count"]) -> Float[Tensor, "batch heads count size"]:
    return vectors.take_along_dim(which[..., None], 2)
