"""Cluster-Former: tokens in the order of their clusters, cut into chunks. Wang et al., 2021, arXiv:2009.06097.

The paper clusters hidden states. What a head has of a token's is its query and its key, both linear in it: laid end to
end they stand for it. In cross-attention, queries and keys are of different tokens, and each is one by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .about import FIT, LEARNED, About, Look
from .base import Fitting, Keys, Learned, Queries
from .centroids import check_centroids, cluster, nearest
from .checks import whole
from .reading import of_keys
from .registry import register

__all__ = ["ClusterFormer"]

RESTARTS = 3


@register
@dataclass(frozen=True, eq=False)
class ClusterFormer(Learned):
    """Connect the tokens of a chunk: `size` that follow each other when all are sorted by their nearest centroid.

    >>> ClusterFormer(clusters=32, size=64).fit([Sample(q, k)])(q, k)

    Within a cluster, tokens stay in the order of the text. The paper learns the centroids while the model is trained,
    here they come from the finished one.

    shared: a token is its query and its key laid end to end. Only where they belong to the same tokens. Else queries
    and keys are sorted together, each a token of its own.
    projection: where the centroids lie; None for the space of queries and keys as they are.
    """

    clusters: int = field(metadata=FIT)
    size: int
    shared: bool = field(default=True, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "cluster-former", "Cluster-Former", "rival", compares="closeness", paper="Wang et al., 2021, arXiv:2009.06097",
        grid={"clusters": (32,), "size": (16, 32, 64, 128, 256)},
        words={"clusters": "{} clusters", "size": "chunks of {} token(s)"}, look=Look("#5d4037", "#bc9a8c", "d"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_centroids(self.clusters, self.centroids)
        whole(1, size=self.size)

    @property
    def query_wise(self) -> bool:
        return False

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> ClusterFormer:
        """Cluster the tokens of each head."""
        tokens = (part for sample in self.mapped(samples) for part in self._tokens(sample))
        pool = pooled(tokens, how.tokens, how.seed)
        return replace(self, centroids=cluster(pool, self.clusters, how.restarts or RESTARTS, how.seed))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        parts = self._tokens(Sample(q, k, grid.layout))
        tokens, real = (torch.cat(each, dim) for each, dim in zip(zip(*parts, strict=True), (2, 1), strict=True))
        chunks = self._chunks(tokens, real)
        if self.shared:
            return Graph.buckets(chunks, chunks, grid)
        of_queries, of_keys = chunks.split([grid.n, grid.m], 2)
        return Graph.buckets(of_queries, of_keys, grid)

    def _tokens(self, sample: Sample) -> list[tuple[Tensor, Tensor]]:
        """What is clustered, and which of it is real."""
        if not self.shared:
            return [sample.queries, sample.keys]
        n, m = sample.q.shape[2], sample.k.shape[2]
        if n != m:
            raise InputError(
                "shared", f"True with {n} queries and {m} keys", "False unless each token has a query and a key"
            )
        return [(torch.cat([sample.q, sample.k], -1), sample.real_queries() & sample.real_keys())]

    def _chunks(
        self, tokens: Float[Tensor, "batch heads length r"], real: Bool[Tensor, "batch length"]
    ) -> Int[Tensor, "batch heads length 1"]:
        """The chunk of each token; padding comes after all others, and into none."""
        assert self.centroids is not None
        clusters = nearest(tokens, self.centroids, 1)[..., 0]
        order = clusters.masked_fill(~real[:, None], self.clusters).sort(dim=-1, stable=True).indices
        places = torch.arange(tokens.shape[2], device=tokens.device) // self.size
        chunks = torch.empty_like(order).scatter_(-1, order, places.expand_as(order))
        return chunks.masked_fill(~real[:, None], -1)[..., None]

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return float(n + m) * r * (self.clusters + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return of_keys(m, 1) + of_keys(self.clusters, r)
