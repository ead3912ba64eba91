"""Frontiers, hypervolumes and means hold against loops that say what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder.report.points import Setting, frontier, frontiers, hypervolume, read_points

from .made_up import Sizes, make_run

# Few values, so that points coincide and tie.
SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
POINTS = st.lists(st.tuples(SHARES, SHARES), max_size=12)


def dominated(one: tuple[float, float], points: list[tuple[float, float]]) -> bool:
    return any(x >= one[0] and y >= one[1] and (x, y) != one for x, y in points)


def columns(points: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(points, dtype=float).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@given(POINTS)
def test_the_frontier_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    x, y = columns(points)
    found = [(float(x[place]), float(y[place])) for place in frontier(x, y)]
    assert found == sorted({one for one in points if not dominated(one, points)})


@given(st.lists(st.tuples(st.integers(0, 2), SHARES, SHARES), max_size=15))
def test_frontiers_of_groups_are_those_of_each(rows: list[tuple[int, float, float]]) -> None:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    x, y = columns([row[1:] for row in rows])
    found = frontiers(group, x, y)
    for one in set(group.tolist()):
        mine = np.flatnonzero(group == one)
        apart = mine[frontier(x[mine], y[mine])]
        here = found[group[found] == one]
        assert [(x[place], y[place]) for place in here] == [(x[place], y[place]) for place in apart]


@given(POINTS)
def test_the_hypervolume_is_the_area_below_and_left_of_the_points(points: list[tuple[float, float]]) -> None:
    # Squares of the grid that the values lie on, by their middle.
    middles = [(column + 0.5) / 4 for column in range(4)]
    covered = sum(any(x >= a and y >= b for x, y in points) for a in middles for b in middles)
    assert np.isclose(hypervolume(*columns(points)), covered / 16)


def test_nothing_that_is_not_a_number_gets_onto_a_frontier() -> None:
    x, y = np.array([0.2, np.nan, 0.9]), np.array([0.5, 1.0, np.nan])
    assert frontier(x, y).tolist() == [0]


def setting(row: dict[str, Any]) -> Setting:
    return Setting(row["method"], row["inputs"], row["setting"], row["window"], row["globals"])


def test_points_are_read_and_averaged_over_heads(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Sizes(examples=0))
    points = read_points(folder)
    assert points is not None
    rows = parquet.read_table(folder / "points/recall").to_pylist()
    recalls = points.mean(points.recall)
    for place in range(0, len(points.settings), 17):
        mine = [row["recall"] for row in rows if setting(row) == points.settings[place]]
        assert np.isclose(recalls[place], np.mean(mine))
    gold = {(row["layer"], row["head"]): row["gold_sparsity"] for row in rows}
    assert np.isclose(points.gold, np.mean(list(gold.values())))
