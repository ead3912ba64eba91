"""A gate over blocks: maps of pooled queries and keys, learned from the weights that a teacher gives to blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attending import attention
from ..errors import InputError
from .moments import low_rank
from .sample import Sample, batches, block_vectors

__all__ = ["learn_gate", "pooled_keys", "pooled_queries"]

# What a block that may not be seen scores: no weight is left for it, and a row without any other has no NaN.
NOTHING = -1e9


def pooled_queries(
    q: Float[Tensor, "batch heads n d"], lengths: Int[Tensor, " batch"] | None, block: int
) -> Float[Tensor, "batch heads rows d"]:
    """The mean query of each block."""
    return block_vectors(q, lengths, block)


def pooled_keys(
    k: Float[Tensor, "batch heads m d"], lengths: Int[Tensor, " batch"] | None, block: int
) -> Float[Tensor, "batch heads columns three_d"]:
    """Of the keys of each block the greatest, the least and the mean of each dimension, end to end."""
    real = torch.ones(1, k.shape[2], dtype=torch.bool, device=k.device)
    if lengths is not None:
        real = torch.arange(k.shape[2], device=k.device) < lengths[:, None]
    ends = []
    for sign in (1, -1):
        tokens = torch.where(real[:, None, :, None], sign * k, -math.inf)
        tokens = torch.nn.functional.pad(tokens, (0, 0, 0, -k.shape[2] % block), value=-math.inf)
        most = tokens.unflatten(2, (-1, block)).amax(3)
        ends.append(sign * most.masked_fill(most == -math.inf, 0.0))
    return torch.cat([*ends, block_vectors(k, lengths, block)], -1)


def _seen_blocks(visible: Int[Tensor, "batch n"], m: int, block: int) -> Bool[Tensor, "batch 1 rows columns"]:
    """The blocks of keys of which a block of queries sees something, from how many keys each query may see."""
    most = torch.nn.functional.pad(visible, (0, -visible.shape[1] % block)).unflatten(1, (-1, block)).amax(-1)
    return (torch.arange(0, m, block, device=visible.device) < most[..., None])[:, None]


@dataclass(frozen=True, eq=False)
class _Example:
    """The pooled queries and keys of a batch, the blocks that may be seen, and what a gate should say of them."""

    queries: Float[Tensor, "batch heads rows d"]
    keys: Float[Tensor, "batch heads columns three_d"]
    seen: Bool[Tensor, "batch 1 rows columns"]
    wanted: Float[Tensor, "batch heads rows columns"]

    @staticmethod
    def of(sample: Sample, block: int) -> _Example:
        layout = sample.layout
        seen = _seen_blocks(layout.of(sample.q, sample.k).degrees(), sample.k.shape[2], block)
        queries = pooled_queries(sample.q.float(), layout.query_lengths, block)
        keys = pooled_keys(sample.k.float(), layout.key_lengths, block)
        return _Example(queries, keys, seen, _weights(sample, block))

    def loss(self, query_maps: Tensor, key_maps: Tensor) -> Tensor:
        """The cross-entropy of what the gate says and what it should, the mean over blocks of queries with a weight."""
        gate = (self.queries @ query_maps) @ (self.keys @ key_maps).mT
        said = gate.masked_fill(~self.seen, NOTHING).log_softmax(-1)
        rows = self.wanted.sum((0, 2, 3)).clamp(min=1e-30)
        # Heads learn apart from each other: each from the mean over its own rows.
        return -((self.wanted * said).sum((0, 2, 3)) / rows).sum()


def _weights(sample: Sample, block: int) -> Float[Tensor, "batch heads rows columns"]:
    """The greatest weight that the teacher gives in each block, in shares of the block of queries."""
    with torch.no_grad():
        _, weights = attention(
            sample.q, sample.k, sample.k[..., :1], alpha=sample.alpha, layout=sample.layout, scale=sample.score_scale,
            return_weights=True,
        )  # fmt: skip
    batch, heads, n, m = weights.shape
    rows, columns = -(-n // block), -(-m // block)
    b, h, i, j = weights.indices()
    places = ((b * heads + h) * rows + i // block) * columns + j // block
    most = torch.zeros(batch * heads * rows * columns, device=places.device)
    most = most.scatter_reduce_(0, places, weights.values().float(), "amax").view(batch, heads, rows, columns)
    return most / most.sum(-1, keepdim=True).clamp(min=1e-30)


def learn_gate(
    samples: Iterable[Sample], block: int, r: int | None, steps: int, *, rate: float, tokens: int, seed: int
) -> tuple[Float[Tensor, "heads d r"], Float[Tensor, "heads three_d r"]]:
    """Maps of pooled queries and pooled keys whose products are near the logarithms of the weights of blocks.

    They begin as the scores of mean queries and mean keys, at rank r (all if None), and take steps of Adam, with a rate
    that falls to nothing, on a batch at a time. Of each batch only what is pooled is kept, of `tokens` queries or the
    first batch if that has more.
    """
    kept: list[_Example] = []
    count = 0
    for sample in batches(samples):
        kept.append(_Example.of(sample, block))
        count += sample.q.shape[0] * sample.q.shape[2]
        if count >= tokens:
            break
    if not kept:
        raise InputError("samples", "none", "at least one batch of queries and keys")
    start = low_rank(samples, r or kept[0].queries.shape[-1])
    # Steps of Adam have a size of their own: queries and keys begin at the same size.
    sizes = [maps.square().mean((-1, -2), keepdim=True).sqrt().clamp(min=1e-30) for maps in (start.queries, start.keys)]
    even = (sizes[1] / sizes[0]).sqrt()
    ends = torch.zeros_like(start.keys)
    maps = [start.queries * even, torch.cat([ends, ends, start.keys / even], 1)]
    maps = [each.clone().requires_grad_() for each in maps]
    optimizer = torch.optim.Adam(maps, lr=rate)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - step / steps)
        example = kept[int(torch.randint(len(kept), (), generator=generator))]
        with torch.enable_grad():
            loss = example.loss(maps[0], maps[1])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return maps[0].detach(), maps[1].detach()
