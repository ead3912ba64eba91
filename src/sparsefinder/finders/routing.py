"""Routing Transformer: each centroid takes the queries and keys nearest to it. Roy et al., 2021, arXiv:2003.05997."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Look
from .base import Fitting, Keys, Learned, Queries
from .centroids import check_centroids
from .checks import between, whole
from .reading import of_keys
from .registry import register

__all__ = ["Routing", "taken"]


@register
@dataclass(frozen=True, eq=False)
class Routing(Learned):
    """Connect the queries and keys that the same centroid takes: the `size` of a sequence at the smallest angle to it.

    >>> Routing(clusters=8).fit([Sample(q, k)])(q, k)

    A query that no centroid takes has no keys: unite it with a window.

    size: how many queries and how many keys a centroid takes; ⌈length / clusters⌉ if None.
    decay: how much of a centroid stays when it moves towards the tokens of a batch.
    projection: where the centroids lie; None for the space of queries and keys as they are.
    """

    clusters: int = field(metadata=FIT)
    size: int | None = None
    decay: int | float = field(default=0.9, metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    centroids: Float[Tensor, "heads clusters r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "routing", "Routing Transformer", "rival", compares="closeness", paper="Roy et al., 2021, arXiv:2003.05997",
        grid={"clusters": (2, 4, 8, 16)},
        words={"clusters": "{} clusters", "size": "{} tokens each"}, look=Look("#6a3d9a", "#b492e0", "p"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_centroids(self.clusters, self.centroids)
        if self.size is not None:
            whole(1, size=self.size)
        between(0, 1, decay=self.decay)

    @property
    def query_wise(self) -> bool:
        return False

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Routing:
        """Spherical k-means as the tokens come by: a centroid moves by 1 − decay towards the tokens nearest to it."""
        generator = torch.Generator().manual_seed(how.seed)
        centroids: Tensor | None = None
        for tokens, real in (part for sample in self.mapped(samples) for part in (sample.queries, sample.keys)):
            each = _unit(tokens.transpose(1, 2)[real].transpose(0, 1))
            if centroids is None:
                first = torch.randint(each.shape[1], (self.clusters,), generator=generator)
                centroids = each[:, first.to(each.device)]
            nearest = (each @ centroids.mT).argmax(-1)
            sums = torch.zeros_like(centroids).scatter_add_(1, nearest[..., None].expand_as(each), each)
            empty = (sums == 0).all(-1, keepdim=True)
            centroids = torch.where(empty, centroids, _unit(self.decay * centroids + (1 - self.decay) * _unit(sums)))
        if centroids is None:
            raise InputError("samples", "none", "at least one batch of queries and keys")
        return replace(self, centroids=centroids)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        places = grid.layout
        return Graph.buckets(self._taken(q, places.query_lengths), self._taken(k, places.key_lengths), grid)

    def _taken(self, tokens: Tensor, lengths: Int[Tensor, " batch"] | None) -> Int[Tensor, "batch heads length slots"]:
        assert self.centroids is not None
        batch, _, length, _ = tokens.shape
        ends = torch.full((batch,), length, device=tokens.device) if lengths is None else lengths
        sizes = -(-ends // self.clusters) if self.size is None else torch.full_like(ends, self.size)
        scores = _unit(tokens) @ _unit(self.centroids.to(tokens.dtype)).mT
        return taken(scores, sizes, ends)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        return float(n + m) * r * (self.clusters + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.centroids is None else self.centroids.shape[-1]
        size = -(-m // self.clusters) if self.size is None else min(self.size, m)
        return of_keys(self.clusters, size + r)


def taken(
    scores: Float[Tensor, "batch heads length clusters"], sizes: Int[Tensor, " batch"], ends: Int[Tensor, " batch"]
) -> Int[Tensor, "batch heads length slots"]:
    """The clusters that take each token, −1 for none: every one takes the `sizes` best of the first `ends` tokens."""
    length = scores.shape[2]
    real = torch.arange(length, device=scores.device) < ends[:, None]
    sizes = torch.minimum(sizes, ends)
    by_cluster = scores.masked_fill(~real[:, None, :, None], -torch.inf).mT
    best = by_cluster.topk(int(sizes.amax()) if sizes.numel() else 0, -1).indices
    counts = (torch.arange(best.shape[-1], device=scores.device) < sizes[:, None, None, None]).expand_as(best)
    chosen = torch.zeros_like(by_cluster, dtype=torch.bool).scatter_(-1, best, counts).mT
    slots = int(chosen.sum(-1).amax()) if chosen.numel() else 0
    order = chosen.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :slots]
    return torch.where(chosen.gather(-1, order), order, -1)


def _unit(tokens: Tensor) -> Tensor:
    return torch.nn.functional.normalize(tokens, dim=-1)
