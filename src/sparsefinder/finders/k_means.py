"""Buckets through clustering: near the same centroids. Sec. 4.5 of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .about import FIT, LEARNED, About, Dial, Look
from .base import Assigned, Fitting, Keys, Learned, Queries, Settings
from .centroids import check_centroids, cluster, first_in_common, nearest, ranks, slots
from .checks import between, whole
from .reading import of_keys, per_head
from .registry import register

__all__ = ["KMeans"]

RESTARTS = 10


@register
@dataclass(frozen=True, eq=False)
class KMeans(Learned):
    """Connect queries and keys that have one of their `top_k` nearest centroids in common.

    >>> KMeans(clusters=16, projection=projection).fit([Sample(q, k)])(q, k)

    top_k: one for all heads, or one per head.
    projection: where the centroids lie; None for the space of queries and keys as they are.

    On a GPU it waits for the device with a top_k per head only, for the largest.
    """

    clusters: int = field(metadata=FIT)
    top_k: int | Int[Tensor, " heads"] = 1
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "kmeans", "k-means", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 4.5",
        dials=(Dial("top_k", least=1, whole=True),), grid={"clusters": (4, 8, 16, 32)},
        words={"clusters": "{} clusters", "top_k": "the nearest {} of each"}, look=Look("#0062a8", "#5bb0f0", "s"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_centroids(self.clusters, self.centroids)
        whole(1, top_k=self.top_k)
        between(1, self.clusters, top_k=self.top_k)

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> KMeans:
        """Cluster the queries and keys of each head together."""
        tokens = (part for sample in self.mapped(samples) for part in (sample.queries, sample.keys))
        pool = pooled(tokens, how.tokens, how.seed)
        return replace(self, centroids=cluster(pool, self.clusters, how.restarts or RESTARTS, how.seed))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        assert self.centroids is not None
        # Queries and keys in one call: for short sequences it takes as long to begin as to do.
        most = int(self.top_k.amax()) if isinstance(self.top_k, Tensor) else self.top_k
        near = nearest(torch.cat([q, k], 2), self.centroids, most)
        queries, keys = slots(near, self.top_k).split([grid.n, grid.m], 2)
        return Graph.buckets(queries, keys, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        assert self.centroids is not None
        both = (nearest(each, self.centroids, self.clusters) for each in (q[:, :, queries], k))
        return first_in_common(*(ranks(order).short() for order in both))

    def assigned(self, q: Queries, k: Keys) -> Assigned:
        assert self.centroids is not None
        of_queries, of_keys = (nearest(each, self.centroids, 1)[..., 0] for each in (q, k))
        return of_queries, of_keys, self.clusters

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return float(n + m) * r * (self.clusters + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return of_keys(m, 1) * per_head(self.top_k) + of_keys(self.clusters, r)
