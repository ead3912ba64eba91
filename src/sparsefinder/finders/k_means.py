"""Buckets through clustering: near the same centroids. Sec. 4.4 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from ..layout import Layout
from ..projection import Projection
from ..sample import Sample, pooled
from .base import Finder, Keys, Queries, projected

__all__ = ["KMeans", "best", "cluster", "nearest", "tokens_of"]

# Up to so many highest scores are looked for one after the other.
FEW = 8


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
        # Both at once: for short sequences it is the number of operations that takes the time.
        tokens = torch.cat([side.mT for side in projected(self.projection, q, k)], -1).mT
        near = nearest(tokens, self.centroids, self.top_k)
        return Graph.buckets(near[:, :, : grid.n], near[:, :, grid.n :], grid)

    def cost(self, n: int, m: int, d: int) -> float:
        _, clusters, r = self.centroids.shape
        return float(n + m) * r * (clusters + (0 if self.projection is None else d))


def nearest(
    tokens: Float[Tensor, "batch heads length r"], centroids: Float[Tensor, "heads clusters r"], count: int
) -> Int[Tensor, "batch heads length count"]:
    """The nearest centroids of each token: −‖x − c‖² / 2 = x·c − ‖c‖² / 2, less what all centroids have in common."""
    tokens = (tokens.float() if tokens.dtype in (torch.float16, torch.bfloat16) else tokens).detach()
    centroids = centroids.to(tokens.dtype)
    offsets = centroids.square().sum(-1)[:, None] / -2
    if tokens.device.type != "cpu":
        return best(tokens @ centroids.mT + offsets, count)
    # Head by head, over and over in the same place, so that the scores never leave the cache.
    batch, heads, length, _ = tokens.shape
    found = torch.empty(batch, heads, length, count, dtype=torch.long)
    scores = tokens.new_empty(length, centroids.shape[1])
    for b, h in np.ndindex(batch, heads):
        torch.addmm(offsets[h], tokens[b, h], centroids[h].mT, out=scores)
        found[b, h] = best(scores, count)
    return found


def best(scores: Float[Tensor, "*rows clusters"], count: int) -> Int[Tensor, "*rows count"]:
    """The places of the `count` highest scores, the highest first."""
    if scores.device.type != "cpu" or count > FEW:
        return scores.topk(count, -1).indices
    # On a CPU numpy's argmax, time and again, takes a fraction of the time of torch's topk.
    left = (scores.float() if scores.dtype == torch.bfloat16 else scores).detach().numpy()
    found = [left.argmax(-1, keepdims=True)]
    for _ in range(count - 1):
        left = left.copy() if len(found) == 1 else left
        np.put_along_axis(left, found[-1], -np.inf, -1)
        found.append(left.argmax(-1, keepdims=True))
    return torch.from_numpy(np.concatenate(found, -1))


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
