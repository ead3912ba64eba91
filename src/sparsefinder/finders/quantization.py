"""Buckets through quantization: each projected dimension is cut into bins. Sec. 4.3 of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import capsule
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .base import Finder, Keys, Queries, projected, refuse_decoding

__all__ = ["Quantization"]

FEW = 100  # edges that are compared one after the other


@dataclass(frozen=True, eq=False)
class Quantization(Finder):
    """Connect queries and keys that are in the same of `beta` bins in at least one projected dimension.

    >>> Quantization(8, projection)(q, k)

    By default bins have equal numbers: the ranks of a sequence's real queries, and of its real keys, in runs of
    ⌈n / beta⌉. With edges, a bin is what lies between two of them, whatever else the sequence holds. About
    1 − (1 − 1/beta)^r of all pairs share a bin.

    projection: the dimensions to cut; None for those of queries and keys as they are.
    query_edges, key_edges: quantiles of training data, from `fit`; they do not look ahead, so that one can decode.
    """

    beta: int
    projection: Projection | None = None
    query_edges: Float[Tensor, "heads r edges"] | None = None
    key_edges: Float[Tensor, "heads r edges"] | None = None

    def __post_init__(self) -> None:
        if self.beta < 1:
            raise InputError("beta", self.beta, "a number of bins from 1 upwards")
        if (self.query_edges is None) != (self.key_edges is None):
            raise InputError("query_edges, key_edges", "one without the other", "both, or none")

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        beta: int,
        projection: Projection | None = None,
        most: int = 100_000,
        seed: int = 0,
    ) -> Quantization:
        """The form that does not look ahead: edges at the quantiles of (at most `most`) training queries and keys."""
        queries = (((projection.of_queries(each.q) if projection else each.q), each.real_queries()) for each in samples)
        keys = (((projection.of_keys(each.k) if projection else each.k), each.real_keys()) for each in samples)
        return cls(beta, projection, *(_quantiles(pooled(part, most, seed), beta) for part in (queries, keys)))

    @property
    def causal_safe(self) -> bool:
        return self.query_edges is not None

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        refuse_decoding(self, layout)
        grid = layout.of(q, k)
        q, k = projected(self.projection, q, k)
        lengths = grid.layout.query_lengths, grid.layout.key_lengths
        if self.query_edges is not None and self.key_edges is not None:
            bins = [_between(q, self.query_edges, self.beta), _between(k, self.key_edges, self.beta)]
        elif grid.n == grid.m and lengths == (None, None):
            # Both at once: for short sequences it is the number of operations that takes the time.
            bins = list(_ranked(torch.cat([q.mT, k.mT]).mT, None, self.beta).chunk(2))
        else:
            # The bins of padding do not matter: nobody sees it.
            bins = [_ranked(q, lengths[0], self.beta), _ranked(k, lengths[1], self.beta)]
        of_queries, of_keys = bins
        return Graph.buckets(of_queries, of_keys, grid)

    def cost(self, n: int, m: int, d: int) -> float:
        return 0.0 if self.projection is None else float(n + m) * d * self.projection.queries.shape[-1]


def _ranked(
    tokens: Float[Tensor, "batch heads length r"], lengths: Int[Tensor, " batch"] | None, beta: int
) -> Int[Tensor, "batch heads length r"]:
    """The bin of each real token by its rank in each dimension, ⌈length / beta⌉ to a bin."""
    columns = _columns(tokens)
    length = columns.shape[-1]
    if length == 0:
        return torch.zeros_like(tokens, dtype=torch.long)
    # A bin begins with the token of its first rank, unless tokens before it are equal: then their order decides.
    if lengths is None:
        sizes: int | Tensor = -(-length // beta)
        ordered = _sorted(columns)
        edges, before = ordered[..., sizes::sizes], ordered[..., sizes - 1 : length - 1 : sizes]
    else:
        ends = lengths[:, None, None, None]
        sizes = (-(-ends // beta)).clamp(min=1)
        columns = torch.where(torch.arange(length, device=tokens.device) < ends, columns, torch.inf)
        ordered = _sorted(columns)
        first = torch.arange(1, beta, device=tokens.device) * sizes
        places = first.clamp(max=length - 1).expand(*columns.shape[:3], -1)
        edges = torch.where(first < ends, ordered.gather(-1, places), torch.inf)
        before = ordered.gather(-1, (places - 1).clamp(min=0))
    if bool(((before == edges) & (edges < torch.inf)).any()):
        order = columns.sort(dim=-1, stable=True).indices
        ranks = torch.arange(length, device=tokens.device)
        bins = (ranks // sizes).clamp(max=beta - 1).expand(columns.shape)
        return _numbered(torch.empty_like(order).scatter_(-1, order, bins), beta)
    return _passed(columns, edges, beta)


def _between(
    tokens: Float[Tensor, "batch heads length r"], edges: Float[Tensor, "heads r edges"], beta: int
) -> Int[Tensor, "batch heads length r"]:
    """How many edges each token has passed, in each dimension."""
    columns = _columns(tokens)
    return _passed(columns, edges.to(columns.dtype).expand(len(tokens), -1, -1, -1), beta)


def _columns(tokens: Float[Tensor, "batch heads length r"]) -> Float[Tensor, "batch heads r length"]:
    columns = tokens.detach().mT.contiguous()
    return columns.float() if columns.dtype in (torch.float16, torch.bfloat16) else columns


def _sorted(columns: Tensor) -> Tensor:
    # On a CPU numpy's sort takes a thirtieth of the time of torch's, which also finds the order.
    return torch.from_numpy(np.sort(columns.numpy(), -1)) if columns.device.type == "cpu" else columns.sort(-1).values


def _passed(
    columns: Float[Tensor, "batch heads r length"], edges: Float[Tensor, "batch heads r edges"], beta: int
) -> Int[Tensor, "batch heads length r"]:
    """How many edges lie at or below each number: in C++ where it was built, comparing one after the other."""
    native = compiled.module
    if native is None or columns.device.type != "cpu" or columns.dtype != torch.float32 or edges.shape[-1] > FEW:
        return _numbered(torch.searchsorted(edges.contiguous(), columns, right=True), beta)
    batch, heads, r, length = columns.shape
    bins = torch.empty((batch, heads, length, r), dtype=torch.long)
    native.bins(
        capsule(columns), capsule(edges.contiguous()), beta, capsule(bins), torch.get_num_threads(), compiled.plain()
    )
    return bins


def _numbered(bins: Int[Tensor, "batch heads r length"], beta: int) -> Int[Tensor, "batch heads length r"]:
    """A bin is one of its dimension's: numbered through all of them."""
    return (bins + torch.arange(bins.shape[2], device=bins.device)[:, None] * beta).mT


def _quantiles(tokens: Float[Tensor, "heads count r"], beta: int) -> Float[Tensor, "heads r edges"]:
    places = torch.arange(1, beta, device=tokens.device) * tokens.shape[1] // beta
    return tokens.sort(1).values[:, places].mT.contiguous()
