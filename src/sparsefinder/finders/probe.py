"""Probing an inverted file: keys are clustered, queries take the clusters with the best scores. Ours.

As in nearest-neighbour search by inner product (Jégou et al., 2011, doi:10.1109/TPAMI.2010.57): a query need not be
near the keys it attends to, it only has to score them highly, so queries are never put into clusters themselves. With
`steps`, what belongs together and what queries ask by is learned from gold rows. Tokens are compared with clusters and
not with each other: with √n clusters, finding takes n √n.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.clusters import Clusters, learn_clusters
from ..learning.moments import low_rank
from ..learning.projection import Projection
from ..learning.sample import Sample, batches, pooled
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .centroids import check_centroids, cluster, highest, nearest, ranks, slots
from .checks import at_least, between, whole
from .reading import of_keys
from .registry import register

__all__ = ["Probe"]

RESTARTS = 3
SLACK, PROBES = Dial("slack"), Dial("probes", least=1, whole=True)


@register
@dataclass(frozen=True, eq=False)
class Probe(Learned):
    """Connect each query to the keys of the clusters that score highest with it.

    >>> Probe(clusters=32, slack=3.0, steps=300).fit([Sample(q, k)])(q, k)

    slack: the clusters that score at most so much less than the query's best: few where it is sure, more where not.
    probes: or so many of them. One for all heads, or one per head, of either.
    steps: learn clusters so many steps further, after they were made by k-means (`learning.clusters.learn_clusters`).
    300 are enough, and take some seconds for a layer.
    projection: where inner products are scores and a distance is an error in them; None for the space of queries and
    keys as they are.
    asks, offsets: what scores of queries are taken with, where that was learned; the centroids if None.

    On a GPU it waits for the device with a slack and with probes per head, for the most clusters of a query.
    """

    clusters: int = field(metadata=FIT)
    probes: int | Int[Tensor, " heads"] | None = None
    slack: int | float | Float[Tensor, " heads"] | None = None
    steps: int = field(default=0, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)
    asks: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)
    offsets: Float[Tensor, "heads clusters"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "probe", "probe", "ours", compares="scores", paper="Jégou et al., 2011, doi:10.1109/TPAMI.2010.57",
        dials=(SLACK, PROBES), grid={"clusters": (32,)},
        words={
            "clusters": "{} clusters of keys", "probes": "looks into {}", "steps": "learned in {} steps",
            "slack": "looks into those up to {} below the best",
        },
        look=Look("#1787b8", "#7fd4f5", "v"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_centroids(self.clusters, self.centroids)
        whole(0, steps=self.steps)
        if (self.probes is None) == (self.slack is None):
            got = f"probes {self.probes}, slack {self.slack}"
            raise InputError("parameters of probe", got, "probes or slack among them")
        if self.slack is not None:
            at_least(0, slack=self.slack)
        if self.probes is not None:
            whole(1, probes=self.probes)
            between(1, self.clusters, probes=self.probes)

    @property
    def ready(self) -> bool:
        return self.centroids is not None

    @property
    def dial(self) -> Dial:
        return PROBES if self.slack is None else SLACK

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Probe:
        """Cluster the keys of each head, mapped by `low_rank` of all ranks unless there is a projection; then learn."""
        projection = self.projection
        if projection is None:
            projection = low_rank(samples, next(batches(samples)).q.shape[-1])
        own = replace(self, projection=projection)
        keys = pooled((sample.keys for sample in own.mapped(samples)), how.tokens, how.seed)
        centroids = cluster(keys, self.clusters, how.restarts or RESTARTS, how.seed)
        if not self.steps:
            return replace(own, centroids=centroids)
        learned = learn_clusters(projection, centroids, samples, self.steps, seed=how.seed)
        return replace(own, **learned._asdict())

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        centroids, asks, offsets = self._clusters(q)
        if self.probes is not None:
            most = int(self.probes.amax()) if isinstance(self.probes, Tensor) else self.probes
            chosen = slots(highest(q.detach(), asks, offsets, most), self.probes)
        else:
            below, slack = self._below_best(q), torch.as_tensor(self.slack, dtype=torch.float64, device=q.device)
            taken = (below <= slack.expand(grid.heads)[:, None, None]).sum(-1, keepdim=True)
            order = below.topk(int(taken.amax()) if taken.numel() else 1, largest=False).indices
            chosen = order.where(torch.arange(order.shape[-1], device=order.device) < taken, -1)
        return Graph.buckets(chosen, nearest(k, centroids, 1), grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        centroids, asks, offsets = self._clusters(q)
        some = q[:, :, queries]
        if self.slack is None:
            settings = ranks(highest(some.detach(), asks, offsets, self.clusters)).double()
        else:
            settings = self._below_best(some).double()
        cluster_of_key = nearest(k, centroids, 1).mT.expand(-1, -1, settings.shape[2], -1)
        return settings.gather(-1, cluster_of_key)

    def _clusters(self, q: Queries) -> Clusters:
        """What keys and queries are compared with."""
        assert self.centroids is not None
        centroids = self.centroids.to(q.dtype)
        asks = centroids if self.asks is None else self.asks.to(q.dtype)
        offsets = torch.zeros_like(centroids[..., 0]) if self.offsets is None else self.offsets.to(q.dtype)
        return Clusters(centroids, asks, offsets)

    def _below_best(self, q: Queries) -> Float[Tensor, "batch heads n clusters"]:
        """How far each cluster's score is below that of the query's best."""
        _, asks, offsets = self._clusters(q)
        scores = q.detach() @ asks.mT + offsets[:, None]
        return scores.amax(-1, keepdim=True) - scores

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return float(n + m) * r * (self.clusters + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return of_keys(m, 1) + of_keys(self.clusters, r)
