"""The part of the matrix with today's methods that choose blocks or patterns: names, finders, oracles."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsefinder.finders import Finder, Quest

from . import block_oracles as oracles
from .oracles import Head, Predicate

PER_HEAD = torch.tensor([1, 2, 3])


def _of_size(z: int) -> list[tuple[str, Finder, Callable[[Head], Predicate]]]:
    return [
        (f"quest {z}", Quest(z, 2), lambda head: oracles.quest(head, z, 2)),
    ]


BLOCK_CASES: list[tuple[str, Finder, Callable[[Head], Predicate]]] = [
    *(case for size in (1, 2, 3, 8, 16) for case in _of_size(size)),
    ("quest by head", Quest(3, PER_HEAD), lambda head: oracles.quest(head, 3, head.number + 1)),
]
