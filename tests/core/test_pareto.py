"""Frontiers and hypervolumes against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder import InputError
from sparsefinder.core.pareto import frontier, frontiers, hypervolume, hypervolumes, quality, quality_at, sparsity_at

NAN = float("nan")
# Few different numbers, so that points are often equal in one or in both.
lists = st.lists(st.tuples(st.integers(-2, 8), st.integers(-2, 8)), max_size=12)


def _points(given: list[tuple[float, float]]) -> np.ndarray:
    return np.array(given, dtype=np.float64).reshape(-1, 2)


@given(lists)
def test_the_frontier_is_what_nobody_dominates(given: list[tuple[int, int]]) -> None:
    kept = [
        place
        for place, (x, y) in enumerate(given)
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in given) and (x, y) not in given[:place]
    ]
    found = frontier(_points(given)).tolist()
    assert sorted(found) == kept
    assert [given[place][0] for place in found] == sorted(given[place][0] for place in found)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 8), st.integers(-2, 8)), max_size=20))
def test_frontiers_of_groups_are_those_of_each(given: list[tuple[int, int, int]]) -> None:
    group, points = np.array([row[0] for row in given], np.int64), _points([row[1:] for row in given])
    apart = [mine[frontier(points[mine])] for one in range(4) for mine in [np.flatnonzero(group == one)]]
    assert frontiers(points, group).tolist() == np.concatenate(apart).tolist()


@given(lists, st.integers(-1, 1))
def test_the_hypervolume_is_the_number_of_cells_below(given: list[tuple[int, int]], reference: int) -> None:
    cells = {(a, b) for x, y in given for a in range(reference, x) for b in range(reference, y)}
    assert hypervolume(_points(given), (float(reference), float(reference))) == len(cells)


@given(lists, st.integers(-2, 8))
def test_the_best_at_a_level(given: list[tuple[int, int]], level: int) -> None:
    assert quality_at(_points(given), float(level)) == max((y for x, y in given if x >= level), default=None)
    assert sparsity_at(_points(given), float(level)) == max((x for x, y in given if y >= level), default=None)


def test_points_without_a_number_count_for_nothing() -> None:
    points = _points([(0.5, NAN), (NAN, 0.9), (0.25, 0.5), (0.9, -np.inf)])
    assert frontier(points).tolist() == [2]
    assert hypervolume(points) == 0.125
    assert quality_at(points, 0.0) == 0.5
    assert quality_at(points, 0.4) is None
    assert sparsity_at(points, 0.6) is None
    assert frontier(points[:0]).tolist() == []
    assert hypervolume(points[:0]) == 0


def test_scores_are_shares_of_the_full_model() -> None:
    assert quality(20.0, 25.0, "higher") == 0.8
    assert quality(12.5, 10.0, "lower") == 0.8
    assert quality(math.inf, 10.0, "lower") == 0
    assert math.isnan(quality(0.0, 0.0, "higher"))
    with pytest.raises(InputError, match="better"):
        quality(1.0, 1.0, "best")


def test_many_draws_have_the_hypervolume_of_each() -> None:
    random = np.random.default_rng(0)
    sparsity, value = random.uniform(-0.1, 1, (2, 50, 9)).round(1)
    value[random.random(value.shape) < 0.1] = np.nan
    found = hypervolumes(sparsity, value)
    assert found == pytest.approx([hypervolume(np.stack(pair, -1)) for pair in zip(sparsity, value, strict=True)])
