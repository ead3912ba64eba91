"""Probing an inverted file: keys are clustered, queries take the clusters with the best scores. Ours.

As in nearest-neighbour search by inner product (Jégou et al., 2011, doi:10.1109/TPAMI.2010.57): a query need not be
near the keys it attends to, it only has to score them highly, so queries are never put into clusters themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .base import Finder, Keys, Queries, projected
from .k_means import cluster, highest, nearest, tokens_of

__all__ = ["Probe"]


@dataclass(frozen=True, eq=False)
class Probe(Finder):
    """Connect each query to the keys of the `probes` clusters whose centroids score highest with it.

    >>> Probe.fit([Sample(q, k)], clusters=32, probes=4)(q, k)

    projection: where inner products are scores; None for the space of queries and keys as they are.
    """

    centroids: Float[Tensor, "heads clusters r"]
    probes: int = 1
    projection: Projection | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.probes <= self.centroids.shape[1]:
            raise InputError("probes", self.probes, f"a number from 1 to the {self.centroids.shape[1]} centroids")

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        clusters: int,
        probes: int = 1,
        projection: Projection | None = None,
        *,
        restarts: int = 3,
        most: int = 20_000,
        seed: int = 0,
    ) -> Probe:
        """Cluster the keys of each head where a distance is an error in scores: in `low_rank` of all ranks if None."""
        if projection is None:
            projection = low_rank(samples, next(iter(samples)).q.shape[-1])
        keys = pooled(tokens_of(samples, projection, "keys"), most, seed)
        return cls(cluster(keys, clusters, restarts, seed), probes, projection)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        q, k = projected(self.projection, q, k)
        centroids = self.centroids.to(q.dtype)
        probed = highest(q.detach(), centroids, torch.zeros_like(centroids[..., 0]), self.probes)
        return Graph.buckets(probed, nearest(k, self.centroids, 1), grid)

    def cost(self, n: int, m: int, d: int) -> float:
        _, clusters, r = self.centroids.shape
        return float(n + m) * r * (clusters + (0 if self.projection is None else d))
