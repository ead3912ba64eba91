"""Sample: the queries and keys of one layer on a batch of inputs. What every kind of fitting learns from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attending import gold_graph
from ..attending.api import checked
from ..attending.gold import weighed_gold
from ..core.graph import Graph
from ..core.layout import Layout, check_layout, check_vectors
from ..errors import InputError, wrong_type
from .projection import Projection

__all__ = ["Pooling", "Sample", "batches", "block_vectors", "mapped", "pooled"]

# What stands for a block of tokens: the mean of its vectors, or all of them laid end to end.
Pooling = Literal["mean", "concat"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Queries and keys of the heads of a layer, how they lie, and what their scores are multiplied by.

    >>> Sample(q, k).gold.sparsity()

    mass: the share of a row's weight that is gold, as `gold_graph` takes it.
    """

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch heads m d"]
    layout: Layout = field(default_factory=Layout)
    scale: float | None = None
    alpha: float | Float[Tensor, " heads"] = 1.5
    mass: float | None = None

    def __post_init__(self) -> None:
        check_vectors("q", self.q)
        check_vectors("k", self.k)
        check_layout(self.layout)

    @property
    def score_scale(self) -> float:
        """The factor of the scores, 1 / √d unless given."""
        return 1 / math.sqrt(self.q.shape[-1]) if self.scale is None else self.scale

    @property
    def gold(self) -> Graph:
        """The pairs that attention gives weight to."""
        return gold_graph(self.q, self.k, self.alpha, self.layout, self.score_scale, mass=self.mass)

    @property
    def weighed_gold(self) -> tuple[Graph, Float[Tensor, " pairs"]]:
        """The same, and how much each of them gets."""
        none = self.k[..., :0]
        call = checked(self.q, self.k, none, None, self.alpha, self.layout, self.score_scale, None, 0.0)
        return weighed_gold(call, self.mass)

    def part(self, queries: slice) -> Sample:
        """The same with some of the queries, from a first to before a last one, and all keys."""
        first, last, _ = queries.indices(self.q.shape[2])
        if (first, last) == (0, self.q.shape[2]):
            return self
        return replace(self, q=self.q[:, :, first:last], layout=self.layout.part(first, last))

    @property
    def queries(self) -> tuple[Float[Tensor, "batch heads n d"], Bool[Tensor, "batch n"]]:
        """The queries, and which of them are not padding."""
        return self.q, self.real_queries()

    @property
    def keys(self) -> tuple[Float[Tensor, "batch heads m d"], Bool[Tensor, "batch m"]]:
        """The keys, and which of them are not padding."""
        return self.k, self.real_keys()

    def real_queries(self) -> Bool[Tensor, "batch n"]:
        """Which queries are not padding."""
        return _real(self.layout.query_lengths, len(self.q), self.q.shape[2], self.q.device)

    def real_keys(self) -> Bool[Tensor, "batch m"]:
        """Which keys are not padding."""
        return _real(self.layout.key_lengths, len(self.k), self.k.shape[2], self.k.device)


def batches(samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples one by one, as all learning reads them; an error if they are something else."""
    want = "batches of one layer: [Sample(q, k)], or traces.samples(kind, layer)"
    if isinstance(samples, str | Mapping | Tensor) or not isinstance(samples, Iterable):
        raise wrong_type("samples", samples, want)
    for sample in samples:
        if not isinstance(sample, Sample):
            raise wrong_type("samples", sample, want)
        yield sample


def mapped(sample: Sample, projection: Projection | None) -> Sample:
    """The sample with its queries and keys projected; what its scores are multiplied by stays."""
    if projection is None:
        return sample
    q, k = projection.of_queries(sample.q), projection.of_keys(sample.k)
    return replace(sample, q=q, k=k, scale=sample.score_scale)


def pooled(
    parts: Iterable[tuple[Float[Tensor, "batch heads length size"], Bool[Tensor, "batch length"]]], most: int, seed: int
) -> Float[Tensor, "heads count size"]:
    """The real tokens of a stream of batches; a uniform sample of them if there are more than `most`."""
    generator = torch.Generator().manual_seed(seed)
    kept: Tensor | None = None
    order = torch.zeros(0)
    for tokens, real in parts:
        found = tokens.transpose(1, 2)[real].transpose(0, 1)
        kept = found if kept is None else torch.cat([kept, found], 1)
        order = torch.cat([order, torch.rand(found.shape[1], generator=generator)])
        if len(order) > most:
            # The tokens with the smallest of independent random numbers are a uniform sample, of any stream.
            order, chosen = order.topk(most, largest=False)
            kept = kept[:, chosen.to(kept.device)]
    if kept is None or kept.shape[1] == 0:
        raise InputError("samples", "no token", "at least one batch of queries and keys")
    return kept


def block_vectors(
    tokens: Float[Tensor, "batch heads length size"],
    lengths: Int[Tensor, " batch"] | None,
    block: int,
    pooling: Pooling = "mean",
) -> Float[Tensor, "batch heads blocks vector"]:
    """A vector for each block: the mean of its real tokens, or all tokens end to end; padding counts as zero."""
    length, spare = tokens.shape[2], -tokens.shape[2] % block
    ends = torch.full((1,), length, device=tokens.device) if lengths is None else lengths
    if lengths is not None:
        real = torch.arange(length, device=tokens.device) < ends[:, None]
        tokens = torch.where(real[:, None, :, None], tokens, 0.0)
    # Padding takes a copy of everything, and is rarely needed.
    parts = (torch.nn.functional.pad(tokens, (0, 0, 0, spare)) if spare else tokens).unflatten(2, (-1, block))
    if pooling == "concat":
        return parts.flatten(3)
    firsts = torch.arange(0, length, block, device=tokens.device)
    return parts.sum(3) / (ends[:, None] - firsts).clamp(1, block)[:, None, :, None]


def _real(lengths: Int[Tensor, " batch"] | None, batch: int, size: int, device: torch.device) -> Tensor:
    place = torch.arange(size, device=device).expand(batch, size)
    return torch.ones_like(place, dtype=torch.bool) if lengths is None else place < lengths.to(device)[:, None]
