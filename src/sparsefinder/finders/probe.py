"""Probing an inverted file: keys are clustered, queries take the clusters with the best scores. Ours.

As in nearest-neighbour search by inner product (Jégou et al., 2011, doi:10.1109/TPAMI.2010.57): a query need not be
near the keys it attends to, it only has to score them highly, so queries are never put into clusters themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample, batches, pooled
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .centroids import check_centroids, cluster, highest, nearest, ranks, slots
from .checks import between, whole
from .registry import register

__all__ = ["Probe"]

RESTARTS = 3


@register
@dataclass(frozen=True, eq=False)
class Probe(Learned):
    """Connect each query to the keys of the `probes` clusters whose centroids score highest with it.

    >>> Probe(clusters=32, probes=4).fit([Sample(q, k)])(q, k)

    probes: one number for all heads, or one per head.
    projection: where inner products are scores and a distance is an error in them; None for the space of queries and
    keys as they are.

    On a GPU it waits for the device with probes per head only, for the largest.
    """

    clusters: int = field(metadata=FIT)
    probes: int | Int[Tensor, " heads"] = 1
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "probe", "probe", "ours", compares="scores", paper="Jégou et al., 2011, doi:10.1109/TPAMI.2010.57",
        dials=(Dial("probes", least=1, whole=True),), grid={"clusters": (32,)},
        words={"clusters": "{} clusters of keys", "probes": "looks into {}"}, look=Look("#1787b8", "#7fd4f5", "v"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_centroids(self.clusters, self.centroids)
        whole(1, probes=self.probes)
        between(1, self.clusters, probes=self.probes)

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Probe:
        """Cluster the keys of each head, mapped by `low_rank` of all ranks unless there is a projection."""
        projection = self.projection
        if projection is None:
            projection = low_rank(samples, next(batches(samples)).q.shape[-1])
        own = replace(self, projection=projection)
        keys = pooled((sample.keys for sample in own.mapped(samples)), how.tokens, how.seed)
        return replace(own, centroids=cluster(keys, self.clusters, how.restarts or RESTARTS, how.seed))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        assert self.centroids is not None
        most = int(self.probes.amax()) if isinstance(self.probes, Tensor) else self.probes
        return Graph.buckets(slots(self._best(q, most), self.probes), nearest(k, self.centroids, 1), grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        assert self.centroids is not None
        places = ranks(self._best(q[:, :, queries], self.clusters)).double()
        cluster_of_key = nearest(k, self.centroids, 1).mT.expand(-1, -1, places.shape[2], -1)
        return places.gather(-1, cluster_of_key)

    def _best(self, q: Queries, count: int) -> Int[Tensor, "batch heads n count"]:
        """The clusters that score highest with each query."""
        assert self.centroids is not None
        centroids = self.centroids.to(q.dtype)
        return highest(q.detach(), centroids, torch.zeros_like(centroids[..., 0]), count)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return float(n + m) * r * (self.clusters + (0 if self.projection is None else d))
