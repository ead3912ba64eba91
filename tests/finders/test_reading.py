"""What finding multiplies and reads about keys, by hand. That it reads no more than keys is a law of all finders."""

from __future__ import annotations

import pytest
import torch

from sparsefinder.finders import Finder, GlobalTokens, Window, finder, methods
from sparsefinder.finders.heads import Heads
from sparsefinder.learning.projection import Projection

from .cases import CASES

N, M, D = 100, 200, 64
KEYS = 4 * M * D
HALF = Projection(torch.zeros(2, D, 4), torch.zeros(2, D, 4))
COUNTED: list[tuple[Finder, float]] = [
    (Window(5) | GlobalTokens(1), 0),
    (finder("oracle"), KEYS),
    (finder("topk", share=0.1), KEYS),
    # A byte for each dimension and two for where the sum starts; nothing of a head that looks at none.
    (finder("sketch", r=8, slack=1.0), M * 10),
    (finder("sketch", r=8, slack=1.0, ranks=torch.tensor([8, 0])), M * 10 / 2),
    (finder("bent-sketch", r=8, slack=1.0), M * 10),
    (finder("distance", t=1.0), KEYS),
    (finder("distance", t=1.0, projection=HALF), M * 4 * 4),
    (finder("quantization", beta=8, projection=HALF), M * 4 * 4),
    # The clusters of keys, and the centroids that a query is compared with.
    (finder("kmeans", clusters=16, top_k=torch.tensor([1, 3])), M * 2 * 4 + 16 * D * 4),
    (finder("probe", clusters=16, slack=1.0), M * 4 + 16 * D * 4),
    (finder("routing", clusters=8), M * 4 + 8 * D * 4),
    (finder("routing", clusters=8, size=5), 8 * 5 * 4 + 8 * D * 4),
    (finder("reformer", buckets=8, rounds=3), M * 3 * 4),
    (finder("smyrf", clusters=8, rounds=2), M * 2 * 4),
    # Bits.
    (finder("magicpig", bits=8, tables=64), M * 64),
    (finder("hash-attention", bits=32, share=0.1), M * 4),
    (finder("sparq", r=16, share=0.1), M * 16 * 4),
    (finder("quest", page=16, k=4), 13 * 2 * D * 4),
    # A block of 16 queries reads once, so that 7 blocks of them read 13 blocks of keys for 100 queries.
    (finder("block-topk", block=16, k=2), 13 * D * 4 * 7 / N),
    (finder("block-topk", block=16, k=2, pooling="concat"), 13 * 16 * D * 4 * 7 / N),
    (finder("block-centroids", block=16, k=2, clusters=8), (13 + 8) * D * 4 * 7 / N),
    (finder("spargeattention", block=16, mass=0.9), 13 * D * 4 * 7 / N),
    (finder("flexprefill", block=16, mass=0.9), 13 * D * 4 * 7 / N + 16 * KEYS / N),
    (finder("xattention", block=16, mass=0.9, stride=4), KEYS * 25 / N),
    (finder("clustered", clusters=10, share=0.1), KEYS * 10 / N),
    (finder("minference", vertical=3, slash=3, last=20), KEYS * 20 / N),
]  # fmt: skip

# Multiplications: of maps and hashes, for every query and key, and of what is compared, for every pair of it.
PAIRS, BLOCKS = N * M, 7 * 13
MULTIPLIED: list[tuple[Finder, float]] = [
    (Window(5) | GlobalTokens(1), 0),
    (finder("oracle"), PAIRS * D),
    (finder("topk", share=0.1), PAIRS * D),
    (finder("sketch", r=8, slack=1.0), PAIRS * 8 + (N + M) * D * 8),
    (finder("sketch", r=8, slack=1.0, ranks=torch.tensor([8, 0])), (PAIRS * 8 + (N + M) * D * 8) / 2),
    # What units multiply, and a map of more numbers; never more than all scores.
    (finder("bent-sketch", r=8, slack=1.0, units=4), PAIRS * 8 + (N + M) * (D * 4 + (D + 4) * 8)),
    (finder("bent-sketch", r=8, slack=1.0), PAIRS * D),
    (finder("distance", t=1.0), PAIRS * D),
    (finder("distance", t=1.0, projection=HALF), PAIRS * 4 + (N + M) * D * 4),
    (finder("quantization", beta=8, projection=HALF), (N + M) * D * 4),
    (finder("kmeans", clusters=16, top_k=2), (N + M) * 16 * D),
    (finder("probe", clusters=16, slack=1.0), (N + M) * 16 * D),
    (finder("routing", clusters=8), (N + M) * 8 * D),
    (finder("cluster-former", clusters=8, size=4), (N + M) * 8 * D),
    # A hash is the nearest of a few directions and their opposites.
    (finder("reformer", buckets=8, rounds=3), (N + M) * D * 3 * 4),
    (finder("magicpig", bits=8, tables=64), (N + M) * D * 8 * 64),
    # Two layers each, then a word of 32 bits for each pair.
    (finder("hash-attention", bits=32, share=0.1), (N + M) * (D * D + D * 32) + PAIRS),
    (finder("sparq", r=16, share=0.1), PAIRS * 16),
    (finder("loki", r=8, share=0.1), PAIRS * 8 + (N + M) * D * 8),
    # Eight products and a gate for each of its heads.
    (finder("dsa", r=8, indexers=2, share=0.1), (PAIRS + N * D) * 2 * 9 + M * D * 8),
    # The least and the most of a page.
    (finder("quest", page=16, k=4), N * 13 * 2 * D),
    (finder("block-topk", block=16, k=2), BLOCKS * D),
    (finder("block-topk", block=16, k=2, pooling="concat"), BLOCKS * 16 * D),
    (finder("block-topk", block=16, k=2, pooling="concat", projection=HALF), BLOCKS * 16 * 4 + (N + M) * D * 4),
    (finder("block-centroids", block=16, k=2, clusters=8), (BLOCKS + (7 + 13) * 8) * D),
    (finder("flexprefill", block=16, mass=0.9), (BLOCKS + 16 * M) * D),
    # Every fourth key of every query, as many of them as there are strides.
    (finder("xattention", block=16, mass=0.9, stride=4), PAIRS * D / 4),
    (finder("minference", vertical=3, slash=3, last=20), 20 * M * D),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "expected"), MULTIPLIED, ids=lambda each: getattr(each, "about", None) and each.about.name
)
def test_multiplications_are_what_a_hand_counts(one: Finder, expected: float) -> None:
    assert one.cost(N, M, D) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "expected"), COUNTED, ids=lambda each: getattr(each, "about", None) and each.about.name
)
def test_bytes_are_what_a_hand_counts(one: Finder, expected: float) -> None:
    assert one.reads(N, M, D) == pytest.approx(expected)


def test_of_several_it_is_the_sum_or_the_mean() -> None:
    sketch, quest = finder("sketch", r=8, slack=1.0), finder("quest", page=16, k=4)
    both = sketch.reads(N, M, D) + quest.reads(N, M, D)
    assert (sketch | quest).reads(N, M, D) == both
    assert (sketch & quest).reads(N, M, D) == both
    # What a first stage leaves out is not read again.
    assert (finder("oracle") & sketch).reads(N, M, D) == KEYS
    assert Heads((sketch, quest, Window(3)), (0, 0, 1, 2)).reads(N, M, D) == (sketch.reads(N, M, D) + both) / 4


def test_who_multiplies_reads() -> None:
    """Whatever a query is compared with has to be read, even if there are few queries or keys."""
    assert {case.finder.about.name for case in CASES} >= {*methods()}
    for case in CASES:
        assert case.finder.reads(N, M, D) > 0 or case.finder.cost(N, M, D) == 0, case.name
        for n, m in ((1, 1), (1, 9), (9, 1), (0, 9), (9, 0)):
            assert case.finder.reads(n, m, D) >= 0, case.name
