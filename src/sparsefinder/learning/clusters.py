"""Clusters of keys that are learned for finding: which keys belong together, and what queries ask them by.

Seen as a lottery, a query draws a cluster by the softmax of its scores with what clusters are asked by, and then one of
the cluster's keys. `learn_clusters` makes gold keys likely in that. A small cluster that has the gold keys of those who
ask it makes them likelier than a large one, so that clusters stay balanced by themselves; only keys that nobody looks
for are heaped up, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from .projection import Projection
from .rows import GoldRows, learn_rows
from .sample import Sample, batches

__all__ = ["Clusters", "learn_clusters"]

# How much sharper the memberships of keys become while it learns: in the end they are what hard ones are.
SHARPER = 4.0
# Added to the number of keys of a cluster, so that an empty one is no certainty.
HALF = 0.5


class Clusters(NamedTuple):
    """A key is in the cluster of the nearest centroid; a query asks by the highest product with `asks`, plus offset."""

    centroids: Float[Tensor, "heads clusters r"]
    asks: Float[Tensor, "heads clusters r"]
    offsets: Float[Tensor, "heads clusters"]


def learn_clusters(
    projection: Projection,
    centroids: Float[Tensor, "heads clusters r"],
    samples: Iterable[Sample],
    steps: int,
    *,
    rate: float = 0.02,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Clusters:
    """Learn clusters that begin at centroids of mapped keys, by the cross-entropy of the lottery and all gold keys.

    projection: maps queries and keys to where centroids are, and where products are about as large as scores.
    """
    # Steps of Adam have a size of their own, so that parameters are given the size 1.
    size = centroids.square().mean((-1, -2), keepdim=True).sqrt().clamp(min=1e-30)
    places, asks = ((centroids / size).clone().requires_grad_() for _ in range(2))
    offsets = centroids.new_zeros(centroids.shape[:2]).requires_grad_()
    sharpness = _sharpness(projection, centroids, samples)
    taken = 0

    def loss(rows: GoldRows) -> Tensor:
        nonlocal taken
        sharp, taken = sharpness * (1 + (SHARPER - 1) * taken / steps), taken + 1
        q, k = rows.q @ projection.queries, rows.k @ projection.keys
        members = (sharp * _nearness(k, places * size)).softmax(-1)
        each = members / (members.sum(1, keepdim=True) + HALF)
        drawn = (q @ (asks * size).mT + offsets[:, None]).softmax(-1) @ each.mT
        gold = (rows.weights > 0).float()
        wanted = gold / gold.sum(-1, keepdim=True).clamp(min=1)
        # The sum over heads, so that each learns as it would alone.
        return -(wanted * drawn.clamp(min=1e-12).log()).sum(-1).mean(-1).sum()

    learn_rows([places, asks, offsets], loss, samples, steps, rate, seed, progress)
    return Clusters(places.detach() * size, asks.detach() * size, offsets.detach())


def _nearness(
    k: Float[Tensor, "heads m r"], centroids: Float[Tensor, "heads clusters r"]
) -> Float[Tensor, "heads m clusters"]:
    """Minus half the squared distance, but for what is the same for all centroids."""
    return k @ centroids.mT - centroids.square().sum(-1)[:, None] / 2


def _sharpness(
    projection: Projection, centroids: Float[Tensor, "heads clusters r"], samples: Iterable[Sample]
) -> Float[Tensor, "heads 1 1"]:
    """So that a key is as likely in a cluster as under normal distributions as wide as clusters are."""
    sample = next(batches(samples))
    k = sample.k[0].float() @ projection.keys
    apart = k.square().sum(-1) - 2 * _nearness(k, centroids).amax(-1)
    return (centroids.shape[-1] / apart.mean(-1).clamp(min=1e-30))[:, None, None]
