"""Buckets through clustering: near the same centroids. Sec. 4.4 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .base import Finder, Keys, Queries, projected

__all__ = ["KMeans", "cluster", "highest", "nearest", "tokens_of"]


@dataclass(frozen=True, eq=False)
class KMeans(Finder):
    """Connect queries and keys that have one of their `top_k` nearest centroids in common.

    >>> KMeans.fit([Sample(q, k)], clusters=16, projection=projection)(q, k)

    projection: where the centroids lie; None for the space of queries and keys as they are.
    """

    centroids: Float[Tensor, "heads clusters r"]
    top_k: int = 1
    projection: Projection | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= self.centroids.shape[1]:
            raise InputError("top_k", self.top_k, f"a number from 1 to the {self.centroids.shape[1]} centroids")

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        clusters: int,
        top_k: int = 1,
        projection: Projection | None = None,
        *,
        restarts: int = 10,
        most: int = 20_000,
        seed: int = 0,
    ) -> KMeans:
        """Cluster the queries and keys of each head together, projected; at most `most` of them, drawn at random."""
        tokens = pooled(tokens_of(samples, projection, "both"), most, seed)
        return cls(cluster(tokens, clusters, restarts, seed), top_k, projection)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        grid = layout.of(q, k)
        # Queries and keys in one call: for short sequences it takes as long to begin as to do.
        near = nearest(torch.cat(projected(self.projection, q, k), 2), self.centroids, self.top_k)
        queries, keys = near.split([grid.n, grid.m], 2)
        return Graph.buckets(queries, keys, grid)

    def cost(self, n: int, m: int, d: int) -> float:
        _, clusters, r = self.centroids.shape
        return float(n + m) * r * (clusters + (0 if self.projection is None else d))


def nearest(
    tokens: Float[Tensor, "batch heads length r"], centroids: Float[Tensor, "heads clusters r"], count: int
) -> Int[Tensor, "batch heads length count"]:
    """The nearest centroids of each token: −‖x − c‖² / 2 = x·c − ‖c‖² / 2, less what all centroids have in common."""
    tokens = (tokens.float() if tokens.dtype in (torch.float16, torch.bfloat16) else tokens).detach()
    centroids = centroids.to(tokens.dtype)
    offsets = centroids.square().sum(-1) / -2
    return highest(tokens, centroids, offsets, count)


def highest(
    tokens: Float[Tensor, "batch heads length r"],
    centroids: Float[Tensor, "heads clusters r"],
    offsets: Float[Tensor, "heads clusters"],
    count: int,
) -> Int[Tensor, "batch heads length count"]:
    """The centroids with the highest x·c + offset, the highest first: in C++ where it was built."""
    native = compiled.module
    if native is None or tokens.device.type != "cpu" or tokens.dtype != torch.float32 or count > native.MOST_NEAREST:
        return (tokens @ centroids.mT + offsets[:, None]).topk(count, -1).indices
    # The kernel takes several centroids at a time; those that are added have a score that no other is below.
    padding = (0, -centroids.shape[1] % native.CENTROIDS_TOGETHER)
    found = torch.empty((*tokens.shape[:3], count), dtype=torch.long)
    native.nearest(
        capsule(tokens), capsule(pad(centroids, (0, 0, *padding)).contiguous()),
        capsule(pad(offsets, padding, value=native.NOTHING)), capsule(found), torch.get_num_threads(), compiled.plain(),
    )  # fmt: skip
    return found


def cluster(
    tokens: Float[Tensor, "heads count r"], clusters: int, restarts: int = 10, seed: int = 0
) -> Float[Tensor, "heads clusters r"]:
    """K-means in each head: k-means++, the best of some restarts, 300 iterations at most."""
    from sklearn.cluster import KMeans as Clustering

    if not 1 <= clusters <= tokens.shape[1]:
        raise InputError("clusters", clusters, f"a number from 1 to the {tokens.shape[1]} tokens to be clustered")
    fits = [
        Clustering(clusters, init="k-means++", n_init=restarts, max_iter=300, random_state=seed).fit(head)
        for head in tokens.float().cpu().numpy()
    ]
    return torch.stack([torch.from_numpy(fit.cluster_centers_) for fit in fits]).float().to(tokens.device)


def tokens_of(
    samples: Iterable[Sample], projection: Projection | None, which: Literal["both", "keys"]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The projected keys of samples, and queries if both, with which of them are real."""
    for sample in samples:
        q, k = projected(projection, sample.q, sample.k)
        if which == "both":
            yield q, sample.real_queries()
        yield k, sample.real_keys()
