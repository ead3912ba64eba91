"""Ratios of counts: recall, precision, sparsity. The one place that says what they are, also where there is nothing.

A ratio of nothing is NaN: the recall of a head without gold pairs, the precision where nothing was predicted, the
sparsity where nothing is visible. A macro average leaves it out unless told what it counts as, and is NaN itself where
nothing is left. Counts are tensors or arrays of whole numbers, whose shapes broadcast; ratios are of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

__all__ = [
    "counted_as", "empty_rows", "every_ratio", "full_recall", "grouped_means", "mean", "precision", "recall",
    "sparsity", "weighted_means",
]  # fmt: skip

Numbers = TypeVar("Numbers", Tensor, NDArray[Any])


def recall(hits: Numbers, gold: Numbers) -> Numbers:
    """The share of gold pairs that were predicted, Eq. 4; NaN where there are none."""
    return _share(hits, gold)


def precision(hits: Numbers, predicted: Numbers) -> Numbers:
    """The share of predicted pairs that are gold; NaN where nothing was predicted."""
    return _share(hits, predicted)


def sparsity(pairs: Numbers, visible: Numbers) -> Numbers:
    """The share of visible pairs that a graph leaves out, Eq. 5 with its footnote; NaN where nothing is visible."""
    return 1 - _share(pairs, visible)


def full_recall(complete: Numbers, queries: Numbers) -> Numbers:
    """The share of queries all of whose gold pairs were predicted: those whose output is exact; NaN without queries."""
    return _share(complete, queries)


def empty_rows(empty: Numbers, queries: Numbers) -> Numbers:
    """The share of queries for which nothing was predicted: their output is zero; NaN without queries."""
    return _share(empty, queries)


def every_ratio(counts: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """All that follows from counts under the names of `metrics.Counts`."""
    return {
        "recall": recall(counts["hits"], counts["gold"]),
        "precision": precision(counts["hits"], counts["predicted"]),
        "sparsity": sparsity(counts["predicted"], counts["visible"]),
        "gold_sparsity": sparsity(counts["gold"], counts["visible"]),
        "full_recall": full_recall(counts["complete"], counts["queries"]),
        "empty_rows": empty_rows(counts["empty"], counts["queries"]),
    }


def mean(ratios: Numbers, axis: int | None = None, empty: str = "skip") -> Numbers:
    """The macro average, over all or along an axis.

    empty: what a ratio of nothing counts as: it is left out ("skip"), or counts as "one" or "zero".
    """
    filling = counted_as(empty)
    if isinstance(ratios, Tensor):
        known = ratios.isnan().logical_not() if filling is None else torch.ones_like(ratios, dtype=torch.bool)
        return _share(ratios.nan_to_num(nan=filling or 0.0).sum(axis), known.sum(axis))
    found = ~np.isnan(ratios) if filling is None else np.ones(ratios.shape, np.bool_)
    return _share(np.where(np.isnan(ratios), filling or 0.0, ratios).sum(axis), found.sum(axis))


def grouped_means(
    ratios: NDArray[Any], group: NDArray[Any], count: int, weights: NDArray[Any] | None = None
) -> NDArray[Any]:
    """The macro average of each of `count` groups, given the group of every ratio; those of nothing are left out.

    weights: how much each ratio counts; the same for all if not given.
    """
    known = ~np.isnan(ratios)
    weight = np.ones(int(known.sum())) if weights is None else weights[known]
    sums = np.bincount(group[known], ratios[known] * weight, minlength=count)
    return _share(sums, np.bincount(group[known], weight, minlength=count))


def weighted_means(ratios: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The macro average of each row of ratios, for each row of weights; those of nothing are left out.

    Weights say how often each column counts: [draws, columns] and [rows, columns] give [draws, rows].
    """
    known = ~np.isnan(ratios)
    return _share(weights @ np.where(known, ratios, 0.0).T, weights @ known.T.astype(np.float64))


def counted_as(empty: str) -> float | None:
    """What a ratio of nothing counts as under a policy: None if it is left out."""
    policies = {"skip": None, "one": 1.0, "zero": 0.0}
    if empty not in policies:
        raise InputError("empty", repr(empty), '"skip", "one" or "zero"')
    return policies[empty]


def _share(part: Numbers, whole: Numbers) -> Numbers:
    """Part / whole; NaN where there is no whole."""
    if isinstance(part, Tensor):
        return torch.where(whole == 0, torch.nan, part / whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, np.nan, part / whole)
