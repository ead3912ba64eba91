"""Heads with something to learn: tokens belong to groups, and attend to the keys of their own group."""

import torch
from torch import Tensor

from sparsefinder import Layout
from sparsefinder.learning.sample import Sample

HEADS, D = 3, 12


def grouped(
    count: int, n: int = 40, seed: int = 0, layout: Layout | None = None, strength: float = 3.0, noise: float = 4.0
) -> Sample:
    """Groups lie in two dimensions that differ from head to head; the rest is noise, and larger."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.randint(6, (count, n), generator=generator) * (torch.pi / 3)
    place = strength * torch.stack([angle.cos(), angle.sin()], -1)
    sides: list[Tensor] = []
    for _ in range(2):
        tokens = 0.1 * torch.randn(count, HEADS, n, D, generator=generator)
        # Only queries are noisy in the loud dimensions: scores do not see it, variances do.
        loud = noise * torch.randn(count, HEADS, n, 3, generator=generator) * (len(sides) == 0)
        for head in range(HEADS):
            tokens[:, head, :, 2 * head : 2 * head + 2] += place
            tokens[:, head, :, 2 * head + 3 : 2 * head + 6] += loud[:, head]
        sides.append(tokens)
    return Sample(sides[0], sides[1], Layout() if layout is None else layout, 1.0)


def batches(count: int, size: int = 4, **more: int) -> list[Sample]:
    return [grouped(size, seed=seed, **more) for seed in range(count)]
