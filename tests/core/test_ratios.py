"""Ratios: the same numbers from tensors and from arrays, and NaN wherever there is nothing to divide by."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder import InputError
from sparsefinder.core.ratios import (
    empty_rows,
    every_ratio,
    full_recall,
    grouped_means,
    mean,
    precision,
    recall,
    sparsity,
    weighted_means,
)

COUNTS = ("visible", "predicted", "gold", "hits", "queries", "complete", "empty")
# What each ratio is out of.
WHOLES = {
    "recall": "gold", "precision": "predicted", "sparsity": "visible", "gold_sparsity": "visible",
    "full_recall": "queries", "empty_rows": "queries",
}  # fmt: skip


@given(st.lists(st.integers(0, 5), min_size=7, max_size=7), st.lists(st.integers(0, 5), min_size=7, max_size=7))
def test_tensors_and_arrays_give_the_same_and_only_nothing_gives_nan(one: list[int], two: list[int]) -> None:
    counts = dict(zip(COUNTS, map(list, zip(one, two, strict=True)), strict=True))
    of_tensors = every_ratio({name: torch.tensor(each) for name, each in counts.items()})
    of_arrays = every_ratio({name: np.array(each) for name, each in counts.items()})
    assert list(of_tensors) == list(of_arrays) == list(WHOLES)
    for name, whole in WHOLES.items():
        assert of_tensors[name].tolist() == pytest.approx(of_arrays[name].tolist(), nan_ok=True)
        assert [math.isnan(each) for each in of_arrays[name]] == [each == 0 for each in counts[whole]]


@pytest.mark.parametrize("ratio", [recall, precision, sparsity, full_recall, empty_rows])
@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_a_part_of_nothing_is_nan_and_warns_of_nothing(ratio: Any, kind: Any) -> None:
    assert math.isnan(ratio(kind(0), kind(0)))
    assert math.isnan(ratio(kind(3), kind(0)))


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0, math.nan]), min_size=3, max_size=3), min_size=1, max_size=4))
def test_means_leave_nan_out_or_count_it_as_told(rows: list[list[float]]) -> None:
    for empty, filling in (("skip", []), ("one", [1.0]), ("zero", [0.0])):
        wanted = []
        for column in (*zip(*rows, strict=True), [each for row in rows for each in row]):
            known = [part for each in column for part in (filling if math.isnan(each) else [each])]
            wanted.append(sum(known) / len(known) if known else math.nan)
        for ratios in (torch.tensor(rows, dtype=torch.float64), np.array(rows)):
            found = [*mean(ratios, 0, empty).tolist(), float(mean(ratios, empty=empty))]
            assert found == pytest.approx(wanted, nan_ok=True)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0, math.nan]), st.integers(0, 3)), max_size=12))
def test_means_of_groups_are_means(pairs: list[tuple[float, int]]) -> None:
    ratios, groups = np.array([one for one, _ in pairs], float), np.array([two for _, two in pairs], int)
    wanted = [float(mean(ratios[groups == group])) for group in range(5)]
    assert grouped_means(ratios, groups, 5).tolist() == pytest.approx(wanted, nan_ok=True)


def test_another_policy_is_refused() -> None:
    with pytest.raises(InputError, match="empty: got 'drop'"):
        mean(np.zeros(3), empty="drop")


def test_weighted_means_are_those_of_columns_that_count_several_times() -> None:
    ratios = np.array([[0.5, np.nan, 1.0, 0.25], [np.nan, np.nan, 0.0, 1.0]])
    weights = np.array([[1, 2, 0, 1], [0, 3, 0, 1], [2, 1, 1, 0], [0, 4, 0, 0]])
    for row, counts in zip(weighted_means(ratios, weights), weights, strict=True):
        for found, values in zip(row, ratios, strict=True):
            drawn = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
            known = [value for value in drawn if not np.isnan(value)]
            assert found == pytest.approx(sum(known) / len(known) if known else np.nan, nan_ok=True)


def test_groups_of_weighted_ratios() -> None:
    ratios, group = np.array([0.5, np.nan, 1.0, 0.25, np.nan]), np.array([0, 0, 0, 1, 2])
    weights = np.array([1, 5, 3, 2, 1])
    assert grouped_means(ratios, group, 3, weights).tolist() == pytest.approx([3.5 / 4, 0.25, np.nan], nan_ok=True)
    assert grouped_means(ratios, group, 3).tolist() == pytest.approx([0.75, 0.25, np.nan], nan_ok=True)
