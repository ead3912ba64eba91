"""The part of the matrix with today's methods that choose blocks or patterns: names, finders, oracles."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsefinder.finders import Finder, FlexPrefill, MInference, Quest, SeerAttention, SpargeAttention, XAttention

from . import block_oracles as oracles
from .oracles import Head, Predicate

Triple = tuple[str, Finder, Callable[[Head], Predicate]]

PER_HEAD = torch.tensor([1, 2, 3])
SHARES = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64)
# Maps of queries of 6 dimensions and of three numbers for each of them, to 4, for three heads.
GATE = [torch.randn(3, size, 4, generator=torch.Generator().manual_seed(size)).double() for size in (6, 18)]
MAPS = [maps.tolist() for maps in GATE]


def _of_size(z: int) -> list[Triple]:
    # A third of the heads of these tokens is query-aware, about.
    between = 0.3 if z > 1 else 0.1
    return [
        (f"quest {z}", Quest(z, 2), lambda head: oracles.quest(head, z, 2)),
        (
            f"flexprefill {z}",
            FlexPrefill(z, 0.6, divergence=between),
            lambda head: oracles.flex_prefill(head, z, 0.6, between),
        ),
        (
            f"xattention {z}",
            XAttention(z, 0.7, stride=z if z % 2 else 2),
            lambda head: oracles.x_attention(head, z, 0.7, z if z % 2 else 2),
        ),
        (
            f"spargeattention {z}",
            SpargeAttention(z, 0.6, similarity=0.25),
            lambda head: oracles.sparge_attention(head, z, 0.6, 0.25),
        ),
        (
            f"seerattention {z}",
            SeerAttention(z, 2, 4, 9, *GATE),
            lambda head: oracles.seer_attention(head, z, 2, *MAPS),
        ),
    ]


BLOCK_CASES: list[Triple] = [
    *(case for size in (1, 2, 3, 8, 16) for case in _of_size(size)),
    ("quest by head", Quest(3, PER_HEAD), lambda head: oracles.quest(head, 3, head.number + 1)),
    (
        "seerattention by head",
        SeerAttention(3, PER_HEAD, 4, 9, *GATE),
        lambda head: oracles.seer_attention(head, 3, head.number + 1, *MAPS),
    ),
    ("minference", MInference(2, 3, last=4), lambda head: oracles.m_inference(head, 2, 3, 4)),
    ("minference of all", MInference(1, 2), lambda head: oracles.m_inference(head, 1, 2, 64)),
    (
        "minference by head",
        MInference(PER_HEAD - 1, PER_HEAD, last=2),
        lambda head: oracles.m_inference(head, head.number, head.number + 1, 2),
    ),
    *(
        (f"{name} by head", finder, lambda head, oracle=oracle: oracle(head, (0.3, 0.6, 0.9)[head.number]))
        for name, finder, oracle in (
            (
                "flexprefill",
                FlexPrefill(2, SHARES, divergence=1),
                lambda head, mass: oracles.flex_prefill(head, 2, mass, 1),
            ),
            (
                "flexprefill, lines",
                FlexPrefill(4, SHARES, divergence=0),
                lambda head, mass: oracles.flex_prefill(head, 4, mass, 0),
            ),
            ("xattention", XAttention(4, SHARES, stride=1), lambda head, mass: oracles.x_attention(head, 4, mass, 1)),
            (
                "spargeattention",
                SpargeAttention(2, SHARES, similarity=-1),
                lambda head, mass: oracles.sparge_attention(head, 2, mass, -1),
            ),
        )
    ),
]
