"""The one clock of all benchmarks: pieces of work take turns in one run; given are medians, with the spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Spread", "interleaved", "ratio", "seconds_of", "turns_within"]

Work = Callable[[], object]


@dataclass(frozen=True)
class Spread:
    """The median of some numbers, and between which the middle half of them lies."""

    low: float
    middle: float
    high: float

    @staticmethod
    def of(numbers: Sequence[float]) -> Spread:
        ordered = sorted(numbers)
        quarter = len(ordered) // 4
        return Spread(ordered[quarter], median(ordered), ordered[-1 - quarter])

    def __str__(self) -> str:
        return f"{self.middle:.2f}x ({self.low:.2f} to {self.high:.2f})"


def seconds_of(work: Work) -> float:
    """How long it takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(*work: Work, repeats: int = 7, warm_up: bool = True) -> list[list[float]]:
    """Seconds of each piece of work, taking turns so that a slow moment of the machine hits all of them.

    warm_up: do each once before it counts, as memory is fetched and caches fill; not needed if that was done already.
    """
    if warm_up:
        for once in work:
            once()
    times: list[list[float]] = [[] for _ in work]
    for _ in range(repeats):
        for once, kept in zip(work, times, strict=True):
            kept.append(seconds_of(once))
    return times


def turns_within(seconds: float, *work: Work, least: int = 3, most: int = 201) -> int:
    """How many turns fit into a time, going by one of them, which is a warm-up too."""
    return max(least, min(most, int(seconds / sum(seconds_of(once) for once in work))))


def ratio(peer: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times as fast as the peer, turn by turn."""
    return Spread.of([slow / fast for slow, fast in zip(peer, ours, strict=True)])
