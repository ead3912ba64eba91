"""Sequences drawn again, with replacement: how much a number could differ had other sequences been measured.

What is drawn is drawn for all settings at once, so that differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["DRAWS", "Interval", "drawn", "interval", "intervals"]

Floats = NDArray[np.float64]

# As many as sacreBLEU draws.
DRAWS = 1000
LEVEL = 0.95
SEED = 0


class Interval(NamedTuple):
    """Where a number lies in 95 of 100 draws."""

    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether a difference is one: zero is outside."""
        return self.low > 0 or self.high < 0


def drawn(sequences: int, numbers: Callable[[NDArray[Any]], Floats]) -> Floats:
    """Numbers of each draw: [draws, numbers].

    numbers: makes them of how often each sequence was drawn, [draws, sequences].
    """

    def statistic(places: NDArray[Any], axis: int = -1) -> Floats:
        counts = np.apply_along_axis(np.bincount, -1, places, minlength=sequences)
        return np.moveaxis(numbers(counts), -1, 0)

    found = stats.bootstrap(
        (np.arange(sequences),), statistic, n_resamples=DRAWS, vectorized=True, method="percentile",
        rng=np.random.default_rng(SEED),
    )  # fmt: skip
    return np.moveaxis(found.bootstrap_distribution, -1, 0)


def interval(draws: Floats) -> Interval:
    """The interval of a number, given its draws."""
    low, high = intervals(draws)
    return Interval(float(low), float(high))


def intervals(draws: Floats) -> Floats:
    """The lower and the upper ends of many numbers, given their draws: [draws, numbers] to [2, numbers]."""
    return np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
