"""The matrix: every finder with its oracle, and every layout. A method that is added belongs here too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsefinder.finders import (
    BentSketch,
    BigBird,
    BlockCentroids,
    BlockTopK,
    Distance,
    Finder,
    Full,
    GlobalTokens,
    Heads,
    KMeans,
    Longformer,
    Oracle,
    Probe,
    Quantization,
    RandomBlocks,
    Reformer,
    Routing,
    Sketch,
    Strided,
    TopK,
    Window,
)
from sparsefinder.learning.projection import Projection

from . import oracles
from .block_cases import BLOCK_CASES
from .oracles import Head, Predicate
from .token_cases import TOKEN_CASES

HEADS, D, R, BLOCKS = 3, 6, 3, (1, 2, 3, 8, 16, 64)


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SHARED = Projection(shared := _random(HEADS, D, R, seed=1), shared)
APART = Projection(_random(HEADS, D, R, seed=2), _random(HEADS, D, R, seed=3))
RAW_CENTROIDS, CENTROIDS = _random(HEADS, 4, D, seed=4), 2 * _random(HEADS, 4, R, seed=5)
# Where keys are worth rounding to whole numbers.
CODED = Projection(APART.queries / 20, APART.keys * 20)
# The same behind units, of which there are four for queries and as many for keys.
LAYERS = _random(HEADS, D + 1, 4, seed=12), _random(HEADS, D + 1, 4, seed=13)
BENT = Projection(_random(HEADS, D + 4, R, seed=14) / 20, _random(HEADS, D + 4, R, seed=15) * 8)
PER_HEAD = torch.tensor([1, 2, 3])
ASKS = _random(HEADS, 4, R, seed=9)
EDGES = [_random(HEADS, R, 3, seed=seed).sort().values for seed in (6, 7)]


@dataclass(frozen=True)
class Case:
    name: str
    finder: Finder
    oracle: Callable[[Head], Predicate]
    self_attention_only: bool = False


def _rotations(rounds: int, d: int, half: int, seed: int) -> list[list[list[float]]]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rounds, d, half, generator=generator).double().tolist()


def _in(projection: Projection, oracle: Callable[[Head], Predicate]) -> Callable[[Head], Predicate]:
    return lambda head: oracle(head.mapped(projection.queries.tolist(), projection.keys.tolist()))


def _bent(oracle: Callable[[Head], Predicate]) -> Callable[[Head], Predicate]:
    query_layers, key_layers = (each.tolist() for each in LAYERS)
    return lambda head: _in(BENT, oracle)(head.widened(query_layers, key_layers))


def _per_head(head: Head) -> Predicate:
    if head.number == 1:
        return oracles.strided(head, 4)
    return _in(SHARED, lambda mapped: oracles.k_means(mapped, CENTROIDS.tolist(), 2 if head.number else 1))(head)


def _block_cases(z: int) -> list[Case]:
    near = CENTROIDS.tolist()
    wide = BlockTopK(z, 1, window=9, globals=2, score="distance", projection=SHARED)
    longer = 2 * _random(HEADS, 4, R * z, seed=8)
    return [
        Case(f"bigbird {z}", BigBird(2, z, 3, 1, seed=7), lambda head: oracles.big_bird(head, 2, z, 3, 1, 7)),
        Case(f"random {z}", RandomBlocks(3, z, seed=8), lambda head: oracles.big_bird(head, 3, z, 0, 0, 8)),
        Case(
            f"block-topk {z}",
            BlockTopK(z, 2, projection=APART),
            _in(APART, lambda head: oracles.block_top_k(head, z, 2, 0, 0, True)),
        ),
        Case(
            f"block-topk with window {z}",
            wide,
            _in(SHARED, lambda head: oracles.block_top_k(head, z, 1, 9, 2, False)),
        ),
        Case(
            f"block-centroids {z}",
            BlockCentroids(z, 2, 4, projection=SHARED, centroids=CENTROIDS),
            _in(SHARED, lambda head: oracles.block_centroids(head, z, 2, near)),
        ),
        Case(
            f"block-centroids with window {z}",
            BlockCentroids(z, 3, 4, 5, 2, projection=APART, centroids=CENTROIDS),
            _in(APART, lambda head: oracles.block_centroids(head, z, 3, near, 5, 2)),
        ),
        Case(
            f"block-topk end to end {z}",
            BlockTopK(z, 1, pooling="concat", projection=APART),
            _in(APART, lambda head: oracles.block_top_k(head, z, 1, 0, 0, True, True)),
        ),
        Case(
            f"block-centroids end to end {z}",
            BlockCentroids(z, 1, 4, pooling="concat", projection=SHARED, centroids=longer),
            _in(SHARED, lambda head: oracles.block_centroids(head, z, 1, longer.tolist(), concat=True)),
        ),
    ]


raw, near = RAW_CENTROIDS.tolist(), CENTROIDS.tolist()
CASES = [
    Case("full", Full(), lambda head: lambda i, j: True),
    Case("window", Window(5), lambda head: oracles.window(head, 5)),
    Case("no window", Window(0), lambda head: oracles.window(head, 0)),
    Case("global", GlobalTokens(2), lambda head: oracles.global_tokens(head, 2)),
    Case("strided", Strided(4), lambda head: oracles.strided(head, 4)),
    Case("longformer", Longformer(3, 4, seed=5), lambda head: oracles.longformer(head, 3, 4, 5)),
    Case("longformer without globals", Longformer(3, 0), lambda head: oracles.longformer(head, 3, 0, 0)),
    *(case for block in BLOCKS for case in _block_cases(block)),
    *(Case(*each) for each in BLOCK_CASES),
    Case("bigbird wide", BigBird(1, 2, 11, 4, seed=9), lambda head: oracles.big_bird(head, 1, 2, 11, 4, 9)),
    Case(
        "reformer", Reformer(4, 2, seed=3), lambda head: oracles.reformer(head, _rotations(2, 2 * D, 2, 3), True), True
    ),
    Case(
        "reformer apart",
        Reformer(6, 1, shared=False, seed=3),
        lambda head: oracles.reformer(head, _rotations(1, D, 3, 3), False),
    ),
    Case(
        "reformer projected",
        Reformer(4, 1, shared=False, seed=3, projection=SHARED),
        _in(SHARED, lambda head: oracles.reformer(head, _rotations(1, R, 2, 3), False)),
    ),
    Case("routing", Routing(4, centroids=RAW_CENTROIDS), lambda head: oracles.routing(head, raw, None)),
    Case(
        "routing of 3",
        Routing(4, 3, projection=APART, centroids=CENTROIDS),
        _in(APART, lambda head: oracles.routing(head, near, 3)),
    ),
    Case("oracle", Oracle(), oracles.oracle),
    Case("topk", TopK(0.2), lambda head: oracles.top_k(head, 0.2)),
    Case("distance", Distance(2.0, projection=SHARED), _in(SHARED, lambda head: oracles.distance(head, 2.0, False))),
    Case("distance squared", Distance(5.0, True, APART), _in(APART, lambda head: oracles.distance(head, 5.0, True))),
    Case(
        "distance by head",
        Distance(torch.tensor([1.0, 2.0, 3.0]), projection=SHARED),
        _in(SHARED, lambda head: oracles.distance(head, 1.0 + head.number, False)),
    ),
    Case("distance raw", Distance(3.0), lambda head: oracles.distance(head, 3.0, False)),
    Case("quantization", Quantization(4, projection=SHARED), _in(SHARED, lambda head: oracles.quantization(head, 4))),
    Case(
        "quantization by edges",
        Quantization(4, "quantiles", SHARED, *EDGES),
        _in(SHARED, lambda head: oracles.quantiles(head, EDGES[0].tolist(), EDGES[1].tolist())),
    ),
    Case("kmeans", KMeans(4, 1, SHARED, CENTROIDS), _in(SHARED, lambda head: oracles.k_means(head, near, 1))),
    Case("kmeans top 2", KMeans(4, 2, APART, CENTROIDS), _in(APART, lambda head: oracles.k_means(head, near, 2))),
    Case("kmeans raw", KMeans(4, centroids=RAW_CENTROIDS), lambda head: oracles.k_means(head, raw, 1)),
    Case(
        "probe",
        Probe(4, 2, projection=APART, centroids=CENTROIDS),
        _in(APART, lambda head: oracles.probe(head, near, 2)),
    ),
    Case(
        "probe slack",
        Probe(4, slack=1.5, projection=APART, centroids=CENTROIDS),
        _in(APART, lambda head: oracles.probe(head, near, slack=1.5)),
    ),
    Case(
        "probe learned",
        Probe(4, slack=0.5, projection=APART, centroids=CENTROIDS, asks=ASKS, offsets=ASKS[..., 0]),
        _in(APART, lambda head: oracles.probe(head, near, slack=0.5, asks=ASKS.tolist())),
    ),
    Case(
        "probe learned, so many",
        Probe(4, 2, projection=APART, centroids=CENTROIDS, asks=ASKS, offsets=ASKS[..., 0]),
        _in(APART, lambda head: oracles.probe(head, near, 2, asks=ASKS.tolist())),
    ),
    Case(
        "sketch share", Sketch(R, share=0.3, projection=CODED), _in(CODED, lambda head: oracles.sketch(head, 0.3, None))
    ),
    Case(
        "sketch slack", Sketch(R, slack=1.5, projection=CODED), _in(CODED, lambda head: oracles.sketch(head, None, 1.5))
    ),
    Case(
        "sketch of other ranks",
        Sketch(R, slack=1.5, projection=CODED, ranks=torch.tensor([0, 2, 3])),
        _in(CODED, lambda head: oracles.sketch(head.cut((0, 2, 3)[head.number]), None, 1.5)),
    ),
    Case(
        "bent sketch share",
        BentSketch(R, None, 0.3, 1, BENT, None, 4, *LAYERS),
        _bent(lambda head: oracles.sketch(head, 0.3, None)),
    ),
    Case(
        "bent sketch slack",
        BentSketch(R, 1.5, None, 1, BENT, None, 4, *LAYERS),
        _bent(lambda head: oracles.sketch(head, None, 1.5)),
    ),
    Case(
        "bent sketch of other ranks",
        BentSketch(R, 1.5, None, 1, BENT, torch.tensor([0, 2, 3]), 4, *LAYERS),
        _bent(lambda head: oracles.sketch(head.cut((0, 2, 3)[head.number]), None, 1.5)),
    ),
    *(
        Case(f"{name} by head", finder, lambda head, oracle=oracle: oracle(head, (1, 2, 3)[head.number]))
        for name, finder, oracle in (
            ("window", Window(PER_HEAD), lambda head, size: oracles.window(head, size)),
            ("global", GlobalTokens(PER_HEAD), lambda head, count: oracles.global_tokens(head, count)),
            (
                "kmeans",
                KMeans(4, PER_HEAD, SHARED, CENTROIDS),
                lambda head, top: _in(SHARED, lambda mapped: oracles.k_means(mapped, near, top))(head),
            ),
            (
                "probe",
                Probe(4, PER_HEAD, projection=APART, centroids=CENTROIDS),
                lambda head, probes: _in(APART, lambda mapped: oracles.probe(mapped, near, probes))(head),
            ),
            (
                "probe slack",
                Probe(4, slack=PER_HEAD / 2, projection=APART, centroids=CENTROIDS),
                lambda head, slack: _in(APART, lambda mapped: oracles.probe(mapped, near, slack=slack / 2))(head),
            ),
            (
                "block-topk",
                BlockTopK(2, PER_HEAD, projection=APART),
                lambda head, k: _in(APART, lambda mapped: oracles.block_top_k(mapped, 2, k, 0, 0, True))(head),
            ),
            (
                "block-centroids",
                BlockCentroids(2, PER_HEAD, 4, projection=SHARED, centroids=CENTROIDS),
                lambda head, k: _in(SHARED, lambda mapped: oracles.block_centroids(mapped, 2, k, near))(head),
            ),
            (
                "sketch share",
                Sketch(R, share=PER_HEAD / 10, projection=CODED),
                lambda head, share: _in(CODED, lambda mapped: oracles.sketch(mapped, share / 10, None))(head),
            ),
            (
                "sketch slack",
                Sketch(R, slack=PER_HEAD / 2, projection=CODED),
                lambda head, slack: _in(CODED, lambda mapped: oracles.sketch(mapped, None, slack / 2))(head),
            ),
            (
                "bent sketch share",
                BentSketch(R, None, PER_HEAD / 10, 1, BENT, None, 4, *LAYERS),
                lambda head, share: _bent(lambda mapped: oracles.sketch(mapped, share / 10, None))(head),
            ),
            (
                "bent sketch slack",
                BentSketch(R, PER_HEAD / 2, None, 1, BENT, None, 4, *LAYERS),
                lambda head, slack: _bent(lambda mapped: oracles.sketch(mapped, None, slack / 2))(head),
            ),
            ("topk", TopK(PER_HEAD / 10), lambda head, share: oracles.top_k(head, share / 10)),
        )
    ),
    Case(
        "probe and sketch",
        Probe(4, 2, projection=APART, centroids=CENTROIDS) & Sketch(R, slack=1.5, projection=CODED),
        lambda head: _sketch_of(head, _in(APART, lambda mapped: oracles.probe(mapped, near, 2))(head)),
    ),
    Case(
        "window and sketch",
        Window(7) & Sketch(R, slack=1.5, projection=CODED),
        lambda head: _sketch_of(head, oracles.window(head, 7)),
    ),
    Case(
        "window and bent sketch",
        Window(7) & BentSketch(R, 1.5, None, 1, BENT, None, 4, *LAYERS),
        lambda head: _bent(lambda mapped: oracles.sketch(mapped, None, 1.5, oracles.window(head, 7)))(head),
    ),
    Case(
        "per head",
        Heads((KMeans(4, 1, SHARED, CENTROIDS), Strided(4), KMeans(4, 2, SHARED, CENTROIDS)), (0, 1, 2)),
        _per_head,
    ),
    Case(
        "union",
        KMeans(4, 1, SHARED, CENTROIDS) | Window(3),
        lambda head: _either(
            _in(SHARED, lambda mapped: oracles.k_means(mapped, near, 1))(head), oracles.window(head, 3)
        ),
    ),
    *(Case(*each) for each in TOKEN_CASES),
]


def _sketch_of(head: Head, first: Predicate) -> Predicate:
    """The best scores among the pairs of another finder."""
    return _in(CODED, lambda mapped: oracles.sketch(mapped, None, 1.5, first))(head)


def _either(one: Predicate, two: Predicate) -> Predicate:
    return lambda i, j: one(i, j) or two(i, j)


def tokens(sequences: int, n: int, m: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Queries and keys in float64, in which no two scores or distances come close to each other."""
    return _random(sequences, HEADS, n, D, seed=seed + 10), _random(sequences, HEADS, m, D, seed=seed + 11)
