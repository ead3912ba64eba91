"""What every finder should predict, written a second time: loops over pairs of plain numbers, one head at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Vector = list[float]
Predicate = Callable[[int, int], bool]


@dataclass(frozen=True)
class Head:
    """One head of one sequence, without padding: its queries and keys, where the queries stand, and its number."""

    q: list[Vector]
    k: list[Vector]
    causal: bool
    offset: int
    number: int

    def sees(self, i: int, j: int) -> bool:
        return not self.causal or j <= i + self.offset

    def mapped(self, queries: list[list[Vector]], keys: list[list[Vector]]) -> Head:
        """The head with its vectors mapped by the matrices of its number."""
        maps = queries[self.number], keys[self.number]
        q, k = ([_times(x, matrix) for x in side] for side, matrix in zip((self.q, self.k), maps, strict=True))
        return Head(q, k, self.causal, self.offset, self.number)

    def widened(self, query_layers: list[list[Vector]], key_layers: list[list[Vector]]) -> Head:
        """The head with vectors that end in what the units of its number say of them, if that is above nothing."""
        sides = []
        for side, layers in ((self.q, query_layers), (self.k, key_layers)):
            units = [list(unit) for unit in zip(*layers[self.number], strict=True)]
            sides.append([[*x, *(max(0.0, dot(x, unit[:-1]) + unit[-1]) for unit in units)] for x in side])
        return Head(sides[0], sides[1], self.causal, self.offset, self.number)

    def cut(self, rank: int) -> Head:
        """The head with the first numbers of its vectors only."""
        q, k = ([[*x[:rank], 0.0] for x in side] for side in (self.q, self.k))
        return Head(q, k, self.causal, self.offset, self.number)


def dot(x: Vector, y: Vector) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def squared_distance(x: Vector, y: Vector) -> float:
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def _times(x: Vector, matrix: list[Vector]) -> Vector:
    return [dot(x, list(column)) for column in zip(*matrix, strict=True)]


def window(head: Head, size: int) -> Predicate:
    return lambda i, j: size > 0 and abs(i + head.offset - j) <= size // 2


def global_tokens(head: Head, count: int) -> Predicate:
    return lambda i, j: 0 <= j < count or i + head.offset < count


def strided(head: Head, stride: int) -> Predicate:
    def has(i: int, j: int) -> bool:
        apart = i + head.offset - j
        return abs(apart) <= stride or apart % stride == 0

    return has


def hashed(seed: int, *places: int) -> int:
    mask = (1 << 64) - 1
    state = seed & mask
    for place in places:
        x = (state * 0x9E3779B97F4A7C15 + place + 1) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        state = x ^ (x >> 31)
    return state & ((1 << 62) - 1)


def drawn(count: int, below: int, seed: int, *places: int) -> list[int]:
    if below <= count:
        return list(range(below))
    chosen: list[int] = []
    for step in range(count):
        last = below - count + step
        number = hashed(seed, *places, step) % (last + 1)
        chosen.append(last if number in chosen else number)
    return chosen


def longformer(head: Head, size: int, count: int, seed: int) -> Predicate:
    tokens = set(drawn(count, len(head.k), seed, 0))
    local = window(head, size)
    return lambda i, j: local(i, j) or j in tokens or i + head.offset in tokens


def big_bird(head: Head, count: int, block: int, size: int, first_tokens: int, seed: int) -> Predicate:
    local, first = window(head, size), global_tokens(head, first_tokens)

    def has(i: int, j: int) -> bool:
        own = (i + head.offset) // block
        legal = []
        for other in range(-(-len(head.k) // block)):
            apart = abs(own - other) * block + block - 1
            inside = size > 0 and apart <= size // 2
            if not inside and (other + 1) * block > first_tokens and not (head.causal and other > own):
                legal.append(other)
        mine = [legal[number] for number in drawn(count, len(legal), seed, head.number, own)]
        return local(i, j) or first(i, j) or j // block in mine

    return has


def reformer(head: Head, rotations: list[list[Vector]], shared: bool) -> Predicate:
    def code(x: Vector, rotation: list[Vector]) -> int:
        turned = _times(x, rotation)
        both = turned + [-value for value in turned]
        return both.index(max(both))

    def has(i: int, j: int) -> bool:
        one = head.q[i] + head.k[i] if shared else head.q[i]
        two = head.q[j] + head.k[j] if shared else head.k[j]
        return any(code(one, rotation) == code(two, rotation) for rotation in rotations)

    return has


def routing(head: Head, centroids: list[list[Vector]], size: int | None) -> Predicate:
    mine = centroids[head.number]

    def best(side: list[Vector], centre: Vector) -> set[int]:
        taken = -(-len(side) // len(mine)) if size is None else size
        angle = [dot(x, centre) / math.sqrt(dot(x, x) * dot(centre, centre)) for x in side]
        return set(sorted(range(len(side)), key=lambda place: -angle[place])[:taken])

    sets = [(best(head.q, centre), best(head.k, centre)) for centre in mine]
    return lambda i, j: any(i in queries and j in keys for queries, keys in sets)


def threshold(scores: list[float]) -> float:
    """The score below which 1.5-entmax gives nothing: Σ [z/2 − τ]₊² = 1, by halving."""
    low, high = max(scores) / 2 - 1, max(scores) / 2
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(0.0, z / 2 - middle) ** 2 for z in scores) >= 1:
            low = middle
        else:
            high = middle
    return 2 * low


def _above(head: Head, i: int) -> dict[int, float]:
    """How far the scores of a row lie above its threshold."""
    scores = {j: dot(head.q[i], k) / math.sqrt(len(k)) for j, k in enumerate(head.k) if head.sees(i, j)}
    if not scores:
        return {}
    bound = threshold(list(scores.values()))
    return {j: score - bound for j, score in scores.items()}


def oracle(head: Head) -> Predicate:
    return lambda i, j: _above(head, i).get(j, -1.0) > 0


def top_k(head: Head, share: float) -> Predicate:
    pairs = {(i, j): gap for i in range(len(head.q)) for j, gap in _above(head, i).items()}
    best = sorted(pairs, key=lambda pair: -pairs[pair])[: math.floor(len(pairs) * share + 0.5)]
    return lambda i, j: (i, j) in best


def distance(head: Head, t: float, squared: bool) -> Predicate:
    def has(i: int, j: int) -> bool:
        apart = squared_distance(head.q[i], head.k[j])
        return apart <= t if squared else math.sqrt(apart) <= t

    return has


def quantization(head: Head, beta: int) -> Predicate:
    def bins(side: list[Vector]) -> list[Vector]:
        size = -(-len(side) // beta) or 1
        found = [[0.0] * len(x) for x in side]
        for dimension in range(len(side[0]) if side else 0):
            order = sorted(range(len(side)), key=lambda place: side[place][dimension])
            for rank, place in enumerate(order):
                found[place][dimension] = rank // size
        return found

    queries, keys = bins(head.q), bins(head.k)
    return lambda i, j: any(one == two for one, two in zip(queries[i], keys[j], strict=True))


def quantiles(head: Head, query_edges: list[list[Vector]], key_edges: list[list[Vector]]) -> Predicate:
    def bin_of(value: float, edges: Vector) -> int:
        return sum(edge <= value for edge in edges)

    def has(i: int, j: int) -> bool:
        return any(
            bin_of(head.q[i][dimension], query_edges[head.number][dimension])
            == bin_of(head.k[j][dimension], key_edges[head.number][dimension])
            for dimension in range(len(head.q[i]))
        )

    return has


def k_means(head: Head, centroids: list[list[Vector]], count: int) -> Predicate:
    mine = centroids[head.number]

    def near(x: Vector) -> set[int]:
        return set(sorted(range(len(mine)), key=lambda place: squared_distance(x, mine[place]))[:count])

    return lambda i, j: bool(near(head.q[i]) & near(head.k[j]))


def probe(
    head: Head,
    centroids: list[list[Vector]],
    probes: int | None = None,
    slack: float | None = None,
    asks: list[list[Vector]] | None = None,
) -> Predicate:
    """With `asks`, queries are compared with these, and the first number of each is added."""
    mine = centroids[head.number]

    def score(i: int, place: int) -> float:
        if asks is None:
            return dot(head.q[i], mine[place])
        return dot(head.q[i], asks[head.number][place]) + asks[head.number][place][0]

    def has(i: int, j: int) -> bool:
        order = sorted(range(len(mine)), key=lambda place: -score(i, place))
        best = order[:probes] if slack is None else [p for p in order if score(i, p) >= score(i, order[0]) - slack]
        return min(range(len(mine)), key=lambda place: squared_distance(head.k[j], mine[place])) in best

    return has


def _codes(x: Vector, query: bool) -> tuple[list[int], float]:
    """Whole numbers of 8 bits, and what the vector was multiplied by to get them."""
    if query:
        unit = min(63 / (max(map(abs, x)) or 1e-30), 175 / (math.sqrt(dot(x, x)) or 1e-30))
        return [round(unit * number) for number in x], unit
    codes = [max(-127, min(127, round(number))) for number in x]
    length = math.sqrt(sum(code * code for code in codes))
    return ([math.trunc(code * 181 / length) for code in codes] if length > 181 else codes), 1.0


def sketch(head: Head, share: float | None, slack: float | None, among: Predicate = lambda i, j: True) -> Predicate:
    def has(i: int, j: int) -> bool:
        query, unit = _codes(head.q[i], True)
        scores = {
            place: sum(a * b for a, b in zip(query, _codes(k, False)[0], strict=True))
            for place, k in enumerate(head.k)
            if head.sees(i, place) and among(i, place)
        }
        if j not in scores:
            return False
        if slack is not None:
            better = [score - scores[j] for score in scores.values() if score > scores[j]]
            return sum(more * more for more in better) <= math.floor(unit * slack) ** 2
        assert share is not None
        wanted = math.ceil(len(scores) * share - 1e-6)
        return wanted > 0 and scores[j] >= sorted(scores.values())[-wanted]

    return has


def _blocks(side: list[Vector], block: int, concat: bool) -> list[Vector]:
    parts = [side[start : start + block] for start in range(0, len(side), block)]
    if concat:
        return [[x for y in part for x in y] + [0.0] * (block - len(part)) * len(part[0]) for part in parts]
    return [[sum(values) / len(part) for values in zip(*part, strict=True)] for part in parts]


def _others(head: Head, block: int, size: int, first_tokens: int, own: int) -> list[int]:
    """The blocks of keys that a block of queries sees, and does not have whole through window and global tokens."""
    local = window(head, size)
    rows = range(own * block, min(len(head.q), (own + 1) * block))
    legal = []
    for other in range(-(-len(head.k) // block)):
        columns = range(other * block, (other + 1) * block)
        seen = any(head.sees(row, column) for row in rows for column in columns if column < len(head.k))
        whole = [(row, column) for row in range(own * block, (own + 1) * block) for column in columns]
        inside = all(local(row, column) for row, column in whole) or columns[-1] < first_tokens
        if seen and not inside:
            legal.append(other)
    return legal


def block_top_k(
    head: Head, block: int, count: int, size: int, first_tokens: int, product: bool, concat: bool = False
) -> Predicate:
    queries, keys = _blocks(head.q, block, concat), _blocks(head.k, block, concat)
    local, first = window(head, size), global_tokens(head, first_tokens)

    def score(own: int, other: int) -> float:
        return dot(queries[own], keys[other]) if product else -squared_distance(queries[own], keys[other])

    def has(i: int, j: int) -> bool:
        own = i // block
        best = sorted(_others(head, block, size, first_tokens, own), key=lambda other: -score(own, other))[:count]
        return local(i, j) or first(i, j) or j // block in best

    return has


def block_centroids(
    head: Head,
    block: int,
    count: int,
    centroids: list[list[Vector]],
    size: int = 0,
    first_tokens: int = 0,
    concat: bool = False,
) -> Predicate:
    queries, keys = _blocks(head.q, block, concat), _blocks(head.k, block, concat)
    local, first = window(head, size), global_tokens(head, first_tokens)

    def best(blocks: list[Vector], centre: Vector, taken: int) -> list[int]:
        return sorted(range(len(blocks)), key=lambda place: squared_distance(blocks[place], centre))[:taken]

    def kept(own: int) -> list[int]:
        found: list[int] = []
        legal = _others(head, block, size, first_tokens, own)
        for taken in range(1, count + 1):
            together = {
                other
                for centre in centroids[head.number]
                if own in best(queries, centre, taken)
                for other in best(keys, centre, taken)
            }
            new = [other for other in legal if other in together and other not in found]
            found += sorted(new, key=lambda other: squared_distance(queries[own], keys[other]))
        return found[:count]

    rows = [kept(own) for own in range(len(queries))]
    return lambda i, j: local(i, j) or first(i, j) or j // block in rows[i // block]
