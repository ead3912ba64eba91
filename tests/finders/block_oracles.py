"""What today's methods that choose blocks or patterns should predict: loops over plain numbers, one head at a time."""

from __future__ import annotations

from .oracles import Head, Predicate, Vector


def quest(head: Head, page: int, count: int) -> Predicate:
    def bound(query: Vector, keys: list[Vector]) -> float:
        return sum(max(x * min(side), x * max(side)) for x, side in zip(query, zip(*keys, strict=True), strict=True))

    def has(i: int, j: int) -> bool:
        pages: dict[int, list[Vector]] = {}
        for place, key in enumerate(head.k):
            if head.sees(i, place):
                pages.setdefault(place // page, []).append(key)
        best = sorted(pages, key=lambda one: -bound(head.q[i], pages[one]))[:count]
        return j // page in best

    return has
