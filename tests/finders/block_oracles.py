"""What today's methods that choose blocks or patterns should predict: loops over plain numbers, one head at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from .oracles import Head, Predicate, Vector, dot

Thing = TypeVar("Thing", bound=Hashable)


def _mean(tokens: list[Vector]) -> Vector:
    return [sum(values) / len(tokens) for values in zip(*tokens, strict=True)]


def _softmax(scores: Mapping[Thing, float]) -> dict[Thing, float]:
    high = max(scores.values(), default=0.0)
    powers = {one: math.exp(score - high) for one, score in scores.items()}
    return {one: power / sum(powers.values()) for one, power in powers.items()}


def _score(head: Head, one: Vector, two: Vector) -> float:
    return dot(one, two) / math.sqrt(len(head.q[0]))


def _until(weights: Mapping[Thing, float], mass: float) -> set[Thing]:
    """The heaviest, one after the other, until they have the share of all; at least one."""
    taken: set[Thing] = set()
    for one in sorted(weights, key=lambda one: -weights[one]):
        if sum(weights[each] for each in taken) > mass * sum(weights.values()):
            break
        taken.add(one)
    return taken


def _cut(count: int, size: int) -> list[range]:
    return [range(start, min(count, start + size)) for start in range(0, count, size)]


def _visible(head: Head, rows: Iterable[int], columns: Iterable[int]) -> bool:
    return any(head.sees(i, j) for i in rows for j in columns)


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


def _last_lines(head: Head, last: int) -> tuple[dict[int, float], dict[int, float]]:
    """The weights of columns and of diagonals (query less key) in the rows of the last queries."""
    columns: dict[int, float] = {}
    diagonals: dict[int, float] = {}
    for i in range(len(head.q))[-last:]:
        scores = {j: _score(head, head.q[i], key) for j, key in enumerate(head.k) if head.sees(i, j)}
        for j, weight in _softmax(scores).items():
            columns[j] = columns.get(j, 0.0) + weight
            diagonals[i - j] = diagonals.get(i - j, 0.0) + weight
    return columns, diagonals


def m_inference(head: Head, vertical: int, slash: int, last: int) -> Predicate:
    def best(weights: dict[int, float], count: int) -> list[int]:
        return sorted(weights, key=lambda one: -weights[one])[:count]

    columns, diagonals = _last_lines(head, last)
    chosen = best(columns, vertical), best(diagonals, slash)
    return lambda i, j: j in chosen[0] or i - j in chosen[1]


def _divergence(one: dict[int, float], two: dict[int, float]) -> float:
    def against(p: dict[int, float], other: dict[int, float]) -> float:
        return sum(x * math.log(2 * x / (x + other.get(place, 0.0))) for place, x in p.items() if x > 0)

    return math.sqrt(max(0.0, against(one, two) / 2 + against(two, one) / 2))


def flex_prefill(head: Head, block: int, mass: float, limit: float) -> Predicate:
    if not head.q or not head.k:
        return lambda i, j: False
    rows, columns = _cut(len(head.q), block), _cut(len(head.k), block)
    last = range(len(head.q))[-block:]
    lines = _last_lines(head, block)
    true: dict[int, float] = {}
    for j, weight in lines[0].items():
        true[j // block] = true.get(j // block, 0.0) + weight / sum(lines[0].values())

    def means(some: Iterable[int]) -> dict[int, float]:
        """Softmax over blocks of keys of the mean of some queries with the mean of each block."""
        query = _mean([head.q[i] for i in some])
        return _softmax({
            other: _score(head, query, _mean([head.k[j] for j in part]))
            for other, part in enumerate(columns)
            if _visible(head, some, part)
        })  # fmt: skip

    if _divergence(means(last), true) < limit:
        every = {(own, other): weight for own, part in enumerate(rows) for other, weight in means(part).items()}
        blocks = _until(every, mass)
        return lambda i, j: (i // block, j // block) in blocks
    chosen = [_until(each, mass) for each in lines]
    return lambda i, j: j in chosen[0] or i - j in chosen[1]


def x_attention(head: Head, block: int, mass: float, stride: int) -> Predicate:
    groups, others = _cut(len(head.q), stride), _cut(len(head.k), stride)
    weights: dict[int, dict[int, float]] = {}
    for own, rows in enumerate(groups):
        scores = {}
        for other, columns in enumerate(others):
            if _visible(head, rows, columns):
                pairs = ((rows.start + step, columns.start + stride - 1 - step) for step in range(stride))
                there = [(i, j) for i, j in pairs if i < len(head.q) and j < len(head.k)]
                scores[other] = sum(_score(head, head.q[i], head.k[j]) for i, j in there) / stride
        mine = weights.setdefault(own * stride // block, {})
        for other, weight in _softmax(scores).items():
            mine[other * stride // block] = mine.get(other * stride // block, 0.0) + weight
    chosen = {own: _until(mine, mass) for own, mine in weights.items()}
    return lambda i, j: j // block in chosen[i // block]


def sparge_attention(head: Head, block: int, mass: float, similarity: float) -> Predicate:
    if not head.q or not head.k:
        return lambda i, j: False
    middle = _mean(head.k)
    keys = [[x - y for x, y in zip(key, middle, strict=True)] for key in head.k]
    rows, columns = _cut(len(head.q), block), _cut(len(keys), block)

    def alike(side: list[Vector], part: range) -> bool:
        pairs = [(side[one], side[two]) for one in part for two in part]
        cosines = [dot(x, y) / math.sqrt(dot(x, x) * dot(y, y) or 1.0) for x, y in pairs]
        return sum(cosines) / len(cosines) > similarity

    def taken(own: range) -> Callable[[int], bool]:
        if not alike(head.q, own):
            return lambda other: True
        query = _mean([head.q[i] for i in own])
        means = {
            other: _score(head, query, _mean([keys[j] for j in part]))
            for other, part in enumerate(columns)
            if alike(keys, part) and _visible(head, own, part)
        }
        best = _until(_softmax(means), mass)
        return lambda other: other in best or not alike(keys, columns[other])

    chosen = [taken(own) for own in rows]
    return lambda i, j: chosen[i // block](j // block)


def seer_attention(
    head: Head, block: int, count: int, query_maps: list[list[Vector]], key_maps: list[list[Vector]]
) -> Predicate:
    def mapped(x: Vector, maps: list[list[Vector]]) -> Vector:
        return [dot(x, list(column)) for column in zip(*maps[head.number], strict=True)]

    rows, columns = _cut(len(head.q), block), _cut(len(head.k), block)
    gates = [mapped(_mean([head.q[i] for i in part]), query_maps) for part in rows]
    keys = []
    for part in columns:
        sides = list(zip(*(head.k[j] for j in part), strict=True))
        pooled = [*map(max, sides), *map(min, sides), *(sum(side) / len(part) for side in sides)]
        keys.append(mapped(pooled, key_maps))

    def best(own: int) -> list[int]:
        seen = [other for other, part in enumerate(columns) if _visible(head, rows[own], part)]
        return sorted(seen, key=lambda other: -dot(gates[own], keys[other]))[:count]

    chosen = [best(own) for own in range(len(rows))]
    return lambda i, j: j // block in chosen[i // block]
