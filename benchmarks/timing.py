"""Timing of things against each other in one run: interleaved, medians, with the spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

__all__ = ["interleaved", "ratio"]


def interleaved(*work: Callable[[], object], repeats: int = 7) -> list[list[float]]:
    """Seconds of each piece of work, taking turns so that a slow moment of the machine hits all of them."""
    for once in work:
        once()
    times: list[list[float]] = [[] for _ in work]
    for _ in range(repeats):
        for once, kept in zip(work, times, strict=True):
            start = time.perf_counter()
            once()
            kept.append(time.perf_counter() - start)
    return times


def ratio(peer: list[float], ours: list[float]) -> str:
    """How many times as fast as the peer: the median of the turns' ratios, and the middle half of them."""
    each = sorted(slow / fast for slow, fast in zip(peer, ours, strict=True))
    low, high = each[len(each) // 4], each[-1 - len(each) // 4]
    return f"{median(each):5.2f}x ({low:.2f} to {high:.2f})"
