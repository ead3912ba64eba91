"""What methods that choose tokens should predict, in loops over plain numbers, one head at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from .oracles import Head, Predicate, Vector, dot, squared_distance

Matrix = list[Vector]


def best_share(head: Head, share: float, score: Callable[[int, int], float]) -> Predicate:
    """The share of the keys of a row that score best, rounded up, and those that score like the last of them."""

    @cache
    def best(i: int) -> set[int]:
        scores = {place: score(i, place) for place in range(len(head.k)) if head.sees(i, place)}
        wanted = math.ceil(len(scores) * share - 1e-6)
        return {place for place in scores if wanted and scores[place] >= sorted(scores.values())[-wanted]}

    return lambda i, j: j in best(i)


def sparq(head: Head, r: int, share: float) -> Predicate:
    def score(i: int, j: int) -> float:
        largest = sorted(range(len(head.q[i])), key=lambda place: -abs(head.q[i][place]))[:r]
        return sum(head.q[i][place] * head.k[j][place] for place in largest)

    return best_share(head, share, score)


def loki(head: Head, share: float) -> Predicate:
    """Of a head that was mapped to its components."""
    return best_share(head, share, lambda i, j: dot(head.q[i], head.k[j]))


def _column(matrix: Matrix, place: int) -> Vector:
    return [row[place] for row in matrix]


def _linear(x: Vector, matrix: Matrix) -> Vector:
    """A map whose last row is added to all."""
    return [dot([*x, 1.0], _column(matrix, place)) for place in range(len(matrix[0]))]


def hash_attention(head: Head, layers: list[list[Matrix]], signs: list[list[Matrix]], share: float) -> Predicate:
    """The networks come as those of queries and those of keys, for each head."""

    def bits(x: Vector, side: int) -> list[bool]:
        inside = [max(0.0, value) for value in _linear(x, layers[side][head.number])]
        return [value > 0 for value in _linear(inside, signs[side][head.number])]

    of_queries, of_keys = [bits(x, 0) for x in head.q], [bits(x, 1) for x in head.k]

    def score(i: int, j: int) -> float:
        return -sum(one != two for one, two in zip(of_queries[i], of_keys[j], strict=True))

    return best_share(head, share, score)


def magic_pig(head: Head, planes: list[Matrix], means: Matrix, tables: int, collisions: int) -> Predicate:
    def sides(x: Vector, table: int) -> list[bool]:
        return [dot(x, _column(planes[table], bit)) > 0 for bit in range(len(planes[table][0]))]

    def has(i: int, j: int) -> bool:
        key = [value - mean for value, mean in zip(head.k[j], means[head.number], strict=True)]
        return sum(sides(head.q[i], table) == sides(key, table) for table in range(tables)) >= collisions

    return has


def smyrf(head: Head, lines: Matrix, clusters: int, rounds: int) -> Predicate:
    longest = sum(max((dot(x, x) for x in side), default=0.0) for side in (head.q, head.k))

    def clustered(side: list[Vector], line: Vector, keys: bool) -> list[int]:
        places = []
        for x in side:
            more = math.sqrt(max(0.0, longest - dot(x, x)))
            places.append(dot([*x, more, 0.0] if keys else [*x, 0.0, more], line))
        order, size = sorted(range(len(side)), key=lambda place: places[place]), -(-len(side) // clusters)
        return [order.index(place) // size for place in range(len(side))]

    found = [(clustered(head.q, line, False), clustered(head.k, line, True)) for line in lines[:rounds]]
    return lambda i, j: any(queries[i] == keys[j] for queries, keys in found)


def cluster_former(head: Head, centroids: list[list[Vector]], size: int, shared: bool) -> Predicate:
    mine = centroids[head.number]
    tokens = [q + k for q, k in zip(head.q, head.k, strict=True)] if shared else head.q + head.k

    def cluster(x: Vector) -> int:
        return min(range(len(mine)), key=lambda place: squared_distance(x, mine[place]))

    order = sorted(range(len(tokens)), key=lambda place: (cluster(tokens[place]), place))
    chunk = {place: rank // size for rank, place in enumerate(order)}
    first = 0 if shared else len(head.q)
    return lambda i, j: chunk[i] == chunk[first + j]


def clustered(head: Head, planes: Matrix, clusters: int, iterations: int, share: float) -> Predicate:
    codes = [[1 if value > 0 else -1 for value in _linear(x, planes)] for x in head.q]

    def nearest(code: list[int]) -> int:
        common = [sum(one == two for one, two in zip(code, centre, strict=True)) for centre in centres]
        return common.index(max(common))

    centres = [codes[place * len(codes) // clusters] for place in range(clusters)] if codes else []
    for _ in range(iterations):
        found, moved = [nearest(code) for code in codes], []
        for place, centre in enumerate(centres):
            own = [code for code, cluster in zip(codes, found, strict=True) if cluster == place]
            votes = [sum(code[bit] for code in own) for bit in range(len(centre))]
            moved.append(
                [old if not vote else (1 if vote > 0 else -1) for old, vote in zip(centre, votes, strict=True)]
            )
        centres = moved
    found = [nearest(code) for code in codes]

    def score(i: int, j: int) -> float:
        own = [x for x, cluster in zip(head.q, found, strict=True) if cluster == found[i]]
        return dot([sum(values) / len(own) for values in zip(*own, strict=True)], head.k[j])

    return best_share(head, share, score)


def lightning_indexer(
    head: Head, query_maps: list[Matrix], key_maps: list[Matrix], gates: list[Matrix], share: float
) -> Predicate:
    of_queries, of_keys, own = query_maps[head.number], key_maps[head.number], gates[head.number]
    r = len(of_keys[0])

    def score(i: int, j: int) -> float:
        key = [dot(head.k[j], _column(of_keys, place)) for place in range(r)]
        weights, total = _linear(head.q[i], own), 0.0
        for small, weight in enumerate(weights):
            query = [dot(head.q[i], _column(of_queries, small * r + place)) for place in range(r)]
            total += weight * max(0.0, dot(query, key))
        return total

    return best_share(head, share, score)
