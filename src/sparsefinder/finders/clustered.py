"""Improved clustered attention: queries that fall together share their keys. Vyas et al., 2020, arXiv:2007.04825."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import between, whole
from .reading import of_keys
from .registry import register
from .shares import Scores, best_share, least_shares, plain

__all__ = ["ClusteredAttention"]

# Bits that a processor compares in the time of a multiplication.
WORD = 64


@register
@dataclass(frozen=True, eq=False)
class ClusteredAttention(Finder):
    """Connect each query to the keys that score best with the mean of its cluster of queries.

    >>> ClusteredAttention(clusters=32, share=0.1)(q, k)

    Queries become bits, by the sides of random hyperplanes they lie on, and k-means of the bits makes the clusters,
    anew for each sequence. It starts from queries at equal distances in the text, where the paper draws them. The paper
    lets the keys that are left out have the weights that the mean gives them: here they have none.

    share: of the keys that a query may see, rounded up, with what scores as high as the last of them; the paper has a
    number of keys, and no causal attention. One, or one per head.
    bits, iterations: of the hashes, and of k-means.
    """

    clusters: int
    share: int | float | Float[Tensor, " heads"]
    bits: int = 63
    iterations: int = 10
    seed: int = field(default=0, metadata=RUN)

    about = About(
        "clustered", "clustered attention", "rival", compares="scores", paper="Vyas et al., 2020, arXiv:2007.04825",
        dials=(Dial("share", most=1, every_pair=True),), grid={"clusters": (32,)},
        words={"clusters": "{} clusters of queries", "share": "keeps the best {%} of keys", "bits": "{} bits",
               "iterations": "{} iteration(s)"},
        look=Look("#2e8b4f", "#86e3a0", "X"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, clusters=self.clusters, bits=self.bits, iterations=self.iterations)
        between(0, 1, share=self.share)

    @property
    def query_wise(self) -> bool:
        # The mean of a cluster is that of all its queries.
        return False

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return best_share(self._scores(q, k, grid), self.share, grid) if grid.n else Graph(grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        return least_shares(self._scores(q, k, grid)(queries), grid, queries)

    def _scores(self, q: Queries, k: Keys, grid: Grid) -> Scores:
        queries, ends = plain(q), grid.layout.query_lengths
        ends = torch.full((grid.batch,), grid.n, device=grid.device) if ends is None else ends
        real = (torch.arange(grid.n, device=grid.device) < ends[:, None])[:, None, :, None]
        found = _clusters(self._codes(queries), real, ends, self.clusters, self.iterations)
        each = (queries.where(real, 0.0), real.to(queries))
        sums, counts = (_summed(one, found, self.clusters) for one in each)
        table = (sums / counts.clamp(min=1)) @ plain(k).mT
        return lambda some: table.gather(2, found[:, :, some, None].expand(-1, -1, -1, grid.m))

    def _codes(self, queries: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch heads n bits"]:
        """The sides of random hyperplanes, not all through the origin, that queries lie on: 1 or −1."""
        generator = torch.Generator().manual_seed(self.seed)
        planes = torch.randn(queries.shape[-1] + 1, self.bits, generator=generator, dtype=torch.float64).to(queries)
        return torch.where(pad(queries, (0, 1), value=1.0) @ planes > 0, 1.0, -1.0)

    def cost(self, n: int, m: int, d: int) -> float:
        compared = float(n) * self.clusters * self.iterations * -(-self.bits // WORD)
        return float(n) * self.bits * (d + 1) + compared + float(self.clusters) * m * d

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, d) * min(self.clusters, n) / max(1, n)


def _clusters(
    codes: Float[Tensor, "batch heads n bits"],
    real: Bool[Tensor, "batch 1 n 1"],
    ends: Int[Tensor, " batch"],
    clusters: int,
    iterations: int,
) -> Int[Tensor, "batch heads n"]:
    """The cluster of each query: k-means by the number of bits that differ, where a centre has the bits of the most."""
    first = torch.arange(clusters, device=codes.device) * ends[:, None] // clusters
    centres = codes.gather(2, first[:, None, :, None].expand(-1, codes.shape[1], -1, codes.shape[-1]))
    for _ in range(iterations):
        sums = _summed(codes.where(real, 0.0), _nearest(codes, centres), clusters)
        # Where as many have a bit as not, and where nobody is left, a centre stays as it is.
        centres = torch.where(sums == 0, centres, sums.sign())
    return _nearest(codes, centres)


def _nearest(codes: Tensor, centres: Tensor) -> Int[Tensor, "batch heads n"]:
    """The centre with the most bits in common, the first of several: sums of ±1 are exact."""
    return (codes @ centres.mT).argmax(-1)


def _summed(
    tokens: Float[Tensor, "batch #heads n size"], clusters: Int[Tensor, "batch heads n"], count: int
) -> Float[Tensor, "batch heads count size"]:
    """The sums of the tokens of each cluster."""
    each = tokens.expand(-1, clusters.shape[1], -1, -1)
    sums = each.new_zeros(*clusters.shape[:2], count, each.shape[-1])
    return sums.scatter_add_(2, clusters[..., None].expand_as(each), each)
