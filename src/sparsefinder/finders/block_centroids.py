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
from .centroids import check_centroids, cluster, ranks, slots
from .checks import whole
from .fixed import fixed
from .reading import of_blocks
from .registry import register
from .tiles import check_pooling, chosen_blocks, compared_blocks, legal_blocks

__all__ = ["BlockCentroids"]

RESTARTS = 10
# More blocks than there are.
NEVER = 1 << 30


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

    def compared(self, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
        # Not the tokens are mapped but their blocks.
        return q, k

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        local = fixed(self.window, self.globals).on(q, k, grid)
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        common, order = self._order(q, k, grid, most)
        chosen = order.argsort(dim=-1, stable=True)[..., :most]
        limit = self.k.to(grid.device)[:, None, None] if isinstance(self.k, Tensor) else self.k
        shared = torch.where(common.take_along_dim(chosen, -1) <= limit, chosen, -1)
        return local | chosen_blocks(slots(shared, self.k), self.block, self.block, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        covered = fixed(self.window, self.globals).on(q, k, grid).mask(queries)
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        columns = torch.arange(grid.m, device=grid.device) // self.block
        common, order = self._order(q, k, grid, max(grid.n, grid.m))
        least = torch.maximum(common, ranks(order.argsort(dim=-1, stable=True))).double()
        least = least.masked_fill(common == NEVER, torch.inf)
        return torch.where(covered, 0.0, least[:, :, rows][..., columns])

    def _order(
        self, q: Queries, k: Keys, grid: Grid, most: int
    ) -> tuple[Int[Tensor, "batch heads rows columns"], Int[Tensor, "batch heads rows columns"]]:
        """How many blocks a centroid has to take for a block of queries to share it with a block of keys, NEVER if more
        than `most`; and numbers in the order in which a block of queries gets blocks of keys.
        """
        queries, keys = compared_blocks(q, k, grid, self.block, self.pooling, self.projection)
        of_queries = self._taken(queries, grid.layout.query_lengths, most)
        of_keys = self._taken(keys, grid.layout.key_lengths, most)
        # Every centroid adds a patch: the blocks of queries by the blocks of keys that it takes, nearest first.
        shape = (grid.batch, grid.heads, queries.shape[2], keys.shape[2])
        places = (of_queries[..., None] * shape[3] + of_keys[..., None, :]).flatten(2)
        place, other = (torch.arange(1, each.shape[-1] + 1, device=grid.device) for each in (of_queries, of_keys))
        later = torch.maximum(place[:, None], other).flatten().repeat(self.clusters)
        common = torch.full((*shape[:2], shape[2] * shape[3]), NEVER, device=grid.device)
        common = common.scatter_reduce_(2, places, later.expand(places.shape), "amin").view(shape)
        common = common.masked_fill(~legal_blocks(grid, self.block, self.window, self.globals), NEVER)
        apart = keys.square().sum(-1)[:, :, None] / 2 - queries @ keys.mT
        # First by what they share, then by how near they are: the bits of a float are in the order of numbers, those of
        # negative ones in reverse.
        bits = apart.float().view(torch.int32)
        return common, (common << 32) + (bits ^ (bits >> 31 & 0x7FFFFFFF))

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
        maps = 0 if self.projection is None else (n + m) * d * r
        return float((queries + keys) * self.clusters + queries * keys) * size + maps

    def reads(self, n: int, m: int, d: int) -> float:
        size = d if self.centroids is None else self.centroids.shape[-1]
        return of_blocks(n, m, self.block, size, besides=self.clusters)
