"""Triples: a query, a key that it attends to and one that it could but does not. What projections are learned from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.layout import Layout
from .sample import Pooling, Sample, block_vectors

__all__ = ["Triples", "blocked"]


@dataclass(frozen=True, eq=False)
class Triples:
    """Queries with a key that they attend to and one that they could but do not: rows and keys of flattened tokens."""

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch heads m d"]
    rows: Int[Tensor, " count"]
    positive: Int[Tensor, " count"]
    negative: Int[Tensor, " count"]
    parts: int = 1

    @staticmethod
    def of(sample: Sample, block: int, generator: torch.Generator, pooling: Pooling = "mean") -> Triples | None:
        """One for every gold pair whose query sees others too; None if there is none."""
        gold, q, k = sample.gold, sample.q, sample.k
        visible = gold.grid.degrees()
        pairs = gold.coarse_pairs(block) if block > 1 else gold.pairs()
        if block > 1:
            means = blocked(sample, block, pooling)
            q, k = means.q, means.k
            # A block of queries may see what its last real query may.
            padded = torch.nn.functional.pad(visible, (0, -visible.shape[1] % block))
            visible = -(-padded.unflatten(1, (-1, block)).amax(-1) // block)
        parts = block if pooling == "concat" else 1
        heads, n, m = q.shape[1], q.shape[2] // parts, k.shape[2] // parts
        rows, keys = pairs.rows, pairs.keys
        seen = visible[rows // (heads * n), rows % n]
        others = seen - pairs.offsets.diff()[rows]
        chosen = (others > 0).nonzero().squeeze(-1)
        if len(chosen) == 0:
            return None
        # What a query may see is a run of keys from 0 on. The u-th of them that is not gold lies after as many gold
        # ones as have at most u others before them, and those can be looked up: no key is drawn in vain.
        place = torch.arange(len(keys), device=keys.device) - pairs.offsets[rows]
        before = rows * (m + 1) + keys - place
        rows, others = rows[chosen], others[chosen]
        random = torch.rand(len(chosen), generator=generator, dtype=torch.float64).to(keys.device)
        u = (random * others).long()
        passed = torch.searchsorted(before, rows * (m + 1) + u, right=True) - pairs.offsets[rows]
        first = rows // n * m
        return Triples(q, k, rows, first + keys[chosen], first + u + passed, parts)

    def mapped(self, for_queries: Tensor, for_keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each query, its key and the other one, where they are compared."""
        size = self.parts * for_queries.shape[-1]
        q = (self.q.to(for_queries.dtype) @ for_queries).reshape(-1, size)
        k = (self.k.to(for_keys.dtype) @ for_keys).reshape(-1, size)
        return q.index_select(0, self.rows), k.index_select(0, self.positive), k.index_select(0, self.negative)

    def apart(self, for_queries: Tensor, for_keys: Tensor) -> tuple[Tensor, Tensor]:
        """The squared distances of each query from its key and from the other one."""
        query, positive, negative = self.mapped(for_queries, for_keys)
        return (query - positive).square().sum(-1), (query - negative).square().sum(-1)

    def loss(self, for_queries: Tensor, for_keys: Tensor, margin: float, summed: bool) -> Tensor:
        near, far = self.apart(for_queries, for_keys)
        gap = near - far
        if summed:
            numbers, place = torch.unique(self.rows, return_inverse=True)
            gap = gap.new_zeros(len(numbers)).index_add(0, place, gap)
        return (margin + gap).clamp(min=0).mean()


def blocked(sample: Sample, block: int, pooling: Pooling = "mean") -> Sample:
    """The sample with the mean of each block as one token; or, for "concat", with its tokens padded to whole blocks."""
    if block == 1:
        return sample
    if pooling == "concat":
        q, k = (
            block_vectors(tokens, lengths, block, pooling).unflatten(-1, (block, -1)).flatten(2, 3)
            for tokens, lengths in ((sample.q, sample.layout.query_lengths), (sample.k, sample.layout.key_lengths))
        )
        return Sample(q, k, Layout(sample.layout.causal), sample.score_scale, sample.alpha, sample.mass)
    layout = sample.layout
    lengths = [None if each is None else -(-each // block) for each in (layout.key_lengths, layout.query_lengths)]
    return Sample(
        block_vectors(sample.q, layout.query_lengths, block),
        block_vectors(sample.k, layout.key_lengths, block),
        Layout(layout.causal, lengths[0], query_lengths=lengths[1]),
        sample.score_scale,
        sample.alpha,
        sample.mass,
    )
