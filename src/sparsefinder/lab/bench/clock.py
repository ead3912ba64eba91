"""The one clock of all benchmarks: pieces of work take turns in one run; given are medians, with the spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

__all__ = ["Spread", "in_turns", "interleaved", "laps", "ratio", "seconds_of", "turns_within"]

Work = Callable[[], object]
Result = TypeVar("Result")


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


def laps(first: Callable[[], Result], second: Callable[[Result], object]) -> tuple[float, float]:
    """How long each of two steps takes, the second of which goes on with what the first gave."""
    start = time.perf_counter()
    found = first()
    middle = time.perf_counter()
    second(found)
    return middle - start, time.perf_counter() - middle


def in_turns(*work: Callable[[], Result], repeats: int) -> list[list[Result]]:
    """What each piece of work gives, taking turns so that a slow moment of the machine hits all of them."""
    kept: list[list[Result]] = [[] for _ in work]
    for _ in range(repeats):
        for once, results in zip(work, kept, strict=True):
            results.append(once())
    return kept


def interleaved(*work: Work, repeats: int = 7, warm_up: bool = True) -> list[list[float]]:
    """Seconds of each piece of work, in turns.

    warm_up: do each once before it counts, as memory is fetched and caches fill; not needed if that was done already.
    """
    if warm_up:
        for once in work:
            once()
    return in_turns(*(partial(seconds_of, once) for once in work), repeats=repeats)


def turns_within(seconds: float, *work: Work, least: int = 3, most: int = 201) -> int:
    """How many turns fit into a time, going by one of them, which is a warm-up too."""
    return max(least, min(most, int(seconds / sum(seconds_of(once) for once in work))))


def ratio(peer: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times as fast as the peer, turn by turn."""
    return Spread.of([slow / fast for slow, fast in zip(peer, ours, strict=True)])
