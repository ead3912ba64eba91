"""Cases of methods of others that choose tokens, for the matrix in `cases.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sparsefinder.finders import (
    ClusteredAttention,
    ClusterFormer,
    HashAttention,
    LightningIndexer,
    Loki,
    MagicPig,
    Smyrf,
    SparQ,
)
from sparsefinder.learning.projection import Projection

from . import token_oracles as oracles
from .oracles import Head, Predicate

HEADS, D, R = 3, 6, 3
PER_HEAD = torch.tensor([1, 2, 3])


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _in(projection: Projection, oracle: Callable[[Head], Predicate]) -> Callable[[Head], Predicate]:
    return lambda head: oracle(head.mapped(projection.queries.tolist(), projection.keys.tolist()))


MAPS = Projection(maps := _random(HEADS, D, R, seed=31), maps)
# The networks of queries, then those of keys.
NETWORKS = [
    _random(HEADS, *shape, seed=32 + place) for place, shape in enumerate([(D + 1, 5), (6, 7), (D + 1, 5), (6, 7)])
]
MEANS, PLANES, LINES = _random(HEADS, D, seed=36), _random(128, D, 2, seed=7), _random(64, D + 2, seed=8)
PROJECTED_MEANS, PROJECTED_PLANES = _random(HEADS, R, seed=37), _random(128, R, 3, seed=7)
TOKENS, APART = _random(HEADS, 4, 2 * D, seed=38), _random(HEADS, 4, D, seed=39)
HASHES = _random(D + 1, 9, seed=9)
SMALL = _random(HEADS, D, 2 * R, seed=40), _random(HEADS, D, R, seed=41), _random(HEADS, D + 1, 2, seed=42)


def _hash_attention(head: Head, share: float) -> Predicate:
    layers, signs = ([each.tolist() for each in NETWORKS[part::2]] for part in range(2))
    return oracles.hash_attention(head, layers, signs, share)


def _magic_pig(head: Head, tables: int, collisions: int = 2) -> Predicate:
    return oracles.magic_pig(head, PLANES.tolist(), MEANS.tolist(), tables, collisions)


def _clustered(head: Head, share: float) -> Predicate:
    return oracles.clustered(head, HASHES.tolist(), 3, 4, share)


def _indexer(head: Head, share: float) -> Predicate:
    return oracles.lightning_indexer(head, *(each.tolist() for each in SMALL), share)


# Name, finder, oracle, and whether it is for queries and keys of the same tokens only.
TOKEN_CASES: list[tuple[Any, ...]] = [
    ("sparq", SparQ(2, 0.3), lambda head: oracles.sparq(head, 2, 0.3)),
    ("sparq of all dimensions", SparQ(9, 0.2), lambda head: oracles.sparq(head, D, 0.2)),
    ("sparq by head", SparQ(3, PER_HEAD / 10), lambda head: oracles.sparq(head, 3, (head.number + 1) / 10)),
    ("loki", Loki(R, 0.3, MAPS), _in(MAPS, lambda head: oracles.loki(head, 0.3))),
    (
        "loki by head",
        Loki(R, PER_HEAD / 10, MAPS),
        _in(MAPS, lambda head: oracles.loki(head, (head.number + 1) / 10)),
    ),
    ("hash-attention", HashAttention(7, 0.3, 5, 0, *NETWORKS), lambda head: _hash_attention(head, 0.3)),
    (
        "hash-attention by head",
        HashAttention(7, PER_HEAD / 10, 5, 0, *NETWORKS),
        lambda head: _hash_attention(head, (head.number + 1) / 10),
    ),
    ("magicpig", MagicPig(2, 5, seed=7, means=MEANS), lambda head: _magic_pig(head, 5)),
    ("magicpig once", MagicPig(2, 2, 1, seed=7, means=MEANS), lambda head: _magic_pig(head, 2, 1)),
    (
        "magicpig by head",
        MagicPig(2, 2 * PER_HEAD, seed=7, means=MEANS),
        lambda head: _magic_pig(head, 2 * (head.number + 1)),
    ),
    (
        "magicpig projected",
        MagicPig(3, 8, seed=7, projection=MAPS, means=PROJECTED_MEANS),
        _in(MAPS, lambda head: oracles.magic_pig(head, PROJECTED_PLANES.tolist(), PROJECTED_MEANS.tolist(), 8, 2)),
    ),
    ("smyrf", Smyrf(4, seed=8), lambda head: oracles.smyrf(head, LINES.tolist(), 4, 1)),
    ("smyrf of 3 rounds", Smyrf(5, 3, seed=8), lambda head: oracles.smyrf(head, LINES.tolist(), 5, 3)),
    (
        "smyrf by head",
        Smyrf(4, PER_HEAD, seed=8),
        lambda head: oracles.smyrf(head, LINES.tolist(), 4, head.number + 1),
    ),
    (
        "cluster-former",
        ClusterFormer(4, 5, centroids=TOKENS),
        lambda head: oracles.cluster_former(head, TOKENS.tolist(), 5, True),
        True,
    ),
    (
        "cluster-former apart",
        ClusterFormer(4, 7, shared=False, centroids=APART),
        lambda head: oracles.cluster_former(head, APART.tolist(), 7, False),
    ),
    ("clustered", ClusteredAttention(3, 0.3, 9, 4, seed=9), lambda head: _clustered(head, 0.3)),
    (
        "clustered by head",
        ClusteredAttention(3, PER_HEAD / 10, 9, 4, seed=9),
        lambda head: _clustered(head, (head.number + 1) / 10),
    ),
    ("dsa", LightningIndexer(R, 0.3, 2, 0, *SMALL), lambda head: _indexer(head, 0.3)),
    (
        "dsa by head",
        LightningIndexer(R, PER_HEAD / 10, 2, 0, *SMALL),
        lambda head: _indexer(head, (head.number + 1) / 10),
    ),
]
