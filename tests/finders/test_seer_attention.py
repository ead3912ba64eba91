"""A gate over blocks learns from weights what means of blocks do not show."""

from __future__ import annotations

import torch

from sparsefinder import Layout, Sample
from sparsefinder.finders import BlockTopK, Finder, Fitting, RandomBlocks, SeerAttention
from sparsefinder.learning.gate import _weights

BLOCK, BLOCKS, HEADS, GROUPS = 4, 12, 2, 4


def hidden(count: int, seed: int, layout: Layout = Layout()) -> Sample:
    """Heads that look for one key in a block, whose opposite stands beside it: the mean of the block is nothing."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (0.1 * torch.randn(count, HEADS, BLOCKS, BLOCK, 2 * GROUPS, generator=generator) for _ in range(2))
    groups = torch.randint(GROUPS, (2, count, HEADS, BLOCKS), generator=generator)
    q += 3 * torch.nn.functional.one_hot(groups[0], 2 * GROUPS)[..., None, :]
    needle = 3 * torch.nn.functional.one_hot(groups[1], 2 * GROUPS)
    k[..., 1, :] += needle
    k[..., 2, :] -= needle
    return Sample(q.flatten(2, 3), k.flatten(2, 3), layout, 1.0)


def recall(one: Finder, sample: Sample) -> float:
    return float(one(sample.q, sample.k, sample.layout).recall(sample.gold).nanmean())


def test_the_gate_sees_what_means_do_not() -> None:
    for layout in (Layout(), Layout(True, torch.full((6,), 45), query_lengths=torch.full((6,), 45))):
        samples, held = [hidden(6, seed, layout) for seed in range(4)], hidden(6, 9, layout)
        fitted = SeerAttention(BLOCK, 5).fit(samples)
        again = SeerAttention(BLOCK, 5).fit(samples, Fitting(seed=0))
        others = BlockTopK(BLOCK, 5), RandomBlocks(5, BLOCK), SeerAttention(BLOCK, 5, steps=0).fit(samples)
        # It misses less than half of what means, chance and the gate that has not learned yet do.
        assert 1 - recall(fitted, held) < min(1 - recall(one, held) for one in others) / 2
        assert torch.equal(*(one(held.q, held.k, layout).dense() for one in (fitted, again)))


def test_what_the_gate_learns_is_the_greatest_weight_of_each_block() -> None:
    layout = Layout(True, torch.tensor([48, 30]), query_lengths=torch.tensor([48, 30]))
    sample = hidden(2, 1, layout)
    weights = _weights(sample, BLOCK)
    assert torch.equal(weights > 0, sample.gold.coarse_pairs(BLOCK).matrix(0, BLOCKS))
    sums = weights.sum(-1)
    torch.testing.assert_close(sums[0], torch.ones_like(sums[0]))
    torch.testing.assert_close(sums[1, :, :8], torch.ones_like(sums[1, :, :8]))
    assert not weights[1, :, 8:].any()
