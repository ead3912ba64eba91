"""From which length a method pays, and the block variants by number of blocks."""

import pytest

from sparsefinder.lab.bench.crossover import by_blocks, by_length, ordered, pays_from

from .made_up import LENGTHS, rows


def test_a_method_pays_from_the_length_from_which_it_stays_faster() -> None:
    every = by_length([row for length in LENGTHS for row in rows(length)])
    found = {entry.method: (pays_from(some, "to_full"), pays_from(some, "to_softmax")) for entry, some in every.items()}
    # Distance: 8 ms at 512 grow by the power of 1.2, and 5 and 10 ms by that of 2.
    assert found["distance"] == (1024, 512)
    assert found["sketch"] == (512, 512)
    assert found["window"] == (None, None)
    assert found["full"] == (None, 512)


def test_what_is_faster_only_now_and_then_does_not_pay() -> None:
    some = [{"length": length, "to_full": 1.1, "to_full_low": low} for length, low in ((1, 1.05), (2, 0.9), (3, 1.02))]
    assert pays_from(some, "to_full") == 3
    assert pays_from(some[:2], "to_full") is None


def test_what_others_are_set_against_comes_first_and_then_the_fastest() -> None:
    every = by_length([*rows(512), *rows(2048)])
    order = [entry.method for entry in ordered(every)]
    assert set(order[:2]) == {"softmax", "full"}
    assert order[2:] == ["sketch", "distance", "window"]


def test_blocks_are_means_over_sizes() -> None:
    grid = [*rows(512, block=4, blocks=2), *rows(1024, block=8, blocks=2), *rows(512)]
    found = {(row["method"], row["blocks"]): row for row in by_blocks(grid)}
    assert set(found) == {("sketch", 2), ("distance", 2), ("window", 2)}
    assert found["sketch", 2]["settings"] == 2
    assert found["sketch", 2]["find"] == pytest.approx((1 + 2**1.5) / 2 / 1000)
