"""Buckets through quantization: each projected dimension is cut into bins. Sec. 4.4 of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import capsule
from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Sample, pooled
from .about import FIT, LEARNED, About, Look
from .base import Fitting, Keys, Learned, Queries
from .checks import whole
from .reading import of_keys
from .registry import register

__all__ = ["Quantization", "ranked"]

FEW = 100  # edges that are compared one after the other


@register
@dataclass(frozen=True, eq=False)
class Quantization(Learned):
    """Connect queries and keys that are in the same of `beta` bins in at least one projected dimension.

    >>> Quantization(8, projection=projection)(q, k)

    About 1 − (1 − 1/beta)^r of all pairs share a bin.

    bins: "ranks" of a sequence's real queries, and of its real keys, in runs of ⌈n / beta⌉; or what lies between two
    "quantiles" of training data, whatever else the sequence holds: these do not look ahead, so that one can decode.
    projection: the dimensions to cut; None for those of queries and keys as they are.
    """

    beta: int = field(metadata=FIT)
    bins: Literal["ranks", "quantiles"] = field(default="ranks", metadata=FIT)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    query_edges: Float[Tensor, "heads r edges"] | None = field(default=None, metadata=LEARNED)
    key_edges: Float[Tensor, "heads r edges"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "quantization", "quantization", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 4.4",
        grid={"beta": (2, 4, 8, 16, 32)}, words={"beta": "{} bins", "bins": "bins by {}"},
        look=Look("#a8477f", "#e38fc0", "^"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, beta=self.beta)
        if self.bins not in ("ranks", "quantiles"):
            raise InputError("bins", repr(self.bins), '"ranks" or "quantiles"')
        if (self.query_edges is None) != (self.key_edges is None):
            raise InputError("query_edges, key_edges", "one without the other", "both, or none")

    @property
    def ready(self) -> bool:
        return self.bins == "ranks" or super().ready

    @property
    def query_wise(self) -> bool:
        return self.bins == "quantiles"

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Quantization:
        """Edges at the quantiles of training queries and of training keys; ranks have nothing to learn."""
        if self.bins == "ranks":
            return self
        queries = pooled((sample.queries for sample in self.mapped(samples)), how.tokens, how.seed)
        keys = pooled((sample.keys for sample in self.mapped(samples)), how.tokens, how.seed)
        return replace(self, query_edges=_quantiles(queries, self.beta), key_edges=_quantiles(keys, self.beta))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        lengths = grid.layout.query_lengths, grid.layout.key_lengths
        if self.query_edges is not None and self.key_edges is not None:
            bins = [_between(q, self.query_edges, self.beta), _between(k, self.key_edges, self.beta)]
        elif grid.n == grid.m and lengths == (None, None):
            # Both at once: for short sequences it is the number of operations that takes the time.
            bins = list(ranked(torch.cat([q.mT, k.mT]).mT, None, self.beta).chunk(2))
        else:
            # The bins of padding do not matter: nobody sees it.
            bins = [ranked(q, lengths[0], self.beta), ranked(k, lengths[1], self.beta)]
        of_queries, of_keys = bins
        return Graph.buckets(of_queries, of_keys, grid)

    def cost(self, n: int, m: int, d: int) -> float:
        return 0.0 if self.projection is None else float(n + m) * d * self.projection.queries.shape[-1]

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return of_keys(m, r)


def ranked(
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
