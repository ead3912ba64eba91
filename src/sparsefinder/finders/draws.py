"""Random choices that depend on a seed and on what is chosen for, and on nothing else.

A generator would give a query other blocks as soon as the batch, the padding or the decoding step changed. Here each
number is a hash of the seed and of the places it belongs to: splitmix64, Steele et al., 2014, "Fast splittable
pseudorandom number generators".
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from .about import Place

__all__ = ["choose", "noise", "seed_at"]

# The constants of splitmix64, as signed numbers of 64 bits: products wrap around.
STEP, FIRST, SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def noise(seed: int, *places: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A number from 0 to 2⁶² − 1 for each combination of places, which broadcast."""
    state = torch.full((), seed, dtype=torch.long, device=places[0].device)
    for place in places:
        state = _mixed(state * STEP + place + 1)
    return state & ((1 << 62) - 1)


def choose(count: int, below: Int[Tensor, "*shape"], seed: int, *places: Int[Tensor, "..."]) -> Int[Tensor, "*shape c"]:
    """`count` different numbers below `below`, every set equally likely; where there are fewer, all of them and −1.

    Floyd's algorithm (Bentley and Floyd, 1987): no list of what there is to choose from.
    """
    chosen: list[Tensor] = []
    for step in range(count):
        last = (below - count + step).clamp(min=step)
        drawn = noise(seed, *places, torch.full_like(below, step)) % (last + 1)
        taken = torch.zeros_like(drawn, dtype=torch.bool)
        for earlier in chosen:
            taken = taken | (earlier == drawn)
        chosen.append(torch.where((below <= count) | taken, last, drawn))
    shape = torch.broadcast_shapes(below.shape, *(place.shape for place in places))
    none = torch.zeros(*shape, 0, dtype=torch.long, device=below.device)
    numbers = torch.cat([none, *(one.expand(shape)[..., None] for one in chosen)], -1)
    return torch.where(numbers < below[..., None], numbers, -1)


def seed_at(seed: int, place: Place) -> int:
    """The seed of one attention layer: a stack of layers would see the same blocks again and again otherwise."""
    kind = int.from_bytes(place.kind.encode()[:7], "big")
    return int(noise(seed, torch.tensor(kind), torch.tensor(place.layer)))


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A shift to the right that brings in zeros, which torch has for signed numbers only by masking."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
