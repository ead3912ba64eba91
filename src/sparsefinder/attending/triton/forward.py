"""Forward: where the weights of each row begin, and the mean of the values that they weigh. One program a query tile.

As in kernels/threshold.h, x = a z with a = α − 1, a weight is (x − τ)₊^(1/a), and τ lies between the best x of a row
and 1 less. Nothing of a row is kept but a few numbers: scores are computed again in every pass over its tiles. *look*
finds the best score and, from every tile by itself, a lower bound on τ (the τ of some of a row's scores never exceeds
the τ of all), and then marks the tiles in which a score is above it. Only these are passed over again, also backward.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .membership import inner, members, products, rows_of, shared, visible

__all__ = ["attend", "best", "keys_of", "look", "rise", "sums", "tile_of"]


@triton.jit
def tile_of(order, tile, head, count, size: tl.constexpr):
    """The tokens of a tile by their places in the sequence, and which of them are real."""
    place = tile * size + tl.arange(0, size)
    real = place < count
    if order is not None:
        place = tl.load(order + head.to(tl.int64) * count + place, mask=real, other=0)
    return place, real


@triton.jit
def sums(y, exponent, power: tl.constexpr):
    """Σ y^(1/a) and Σ y^(1/a − 1) of each row, for y = (x − τ)₊."""
    if power == 2:
        return tl.sum(y * y, 1), tl.sum(y, 1)
    if power == 1:
        return tl.sum(y, 1), tl.sum((y > 0).to(tl.float32), 1)
    some = tl.where(y > 0, y, 1.0)
    weight = tl.where(y > 0, tl.exp2(tl.log2(some) * exponent), 0.0)
    return tl.sum(weight, 1), tl.sum(weight / some, 1)


@triton.jit
def rise(total, slope, a, power: tl.constexpr):
    """Newton's step on the norm (Σ p)^a from the left, which never overshoots up to α = 2."""
    some = tl.maximum(total, 1e-30)
    if power == 2:
        excess = some - tl.sqrt(some)
    elif power == 1:
        excess = some - 1.0
    else:
        excess = some - tl.exp2(tl.log2(some) * (1.0 - a))
    # What is only rounding is no step: a row then stands still, whatever the others of its tile do.
    step = excess / tl.maximum(slope, 1e-30)
    return tl.where(step > 4.8e-7, step, 0.0)


@triton.jit
def keys_of(q, k, place, kept, lists, scale, b, h, i, real, query, entry, groups, rows: tl.constexpr,
            columns: tl.constexpr, part: tl.constexpr, precision: tl.constexpr):  # fmt: skip
    """The scores of a tile, −∞ where a pair is not in the graph, and the keys of the tile."""
    head = b * place.heads + h
    j, real_keys = tile_of(lists.key_order, tl.load(lists.tiles + entry), head, place.m, columns)
    keys = rows_of(k, b, h // groups, j, real_keys)
    inside = members(place, kept, b, h, i, j, real, real_keys, entry, rows, columns)
    z = inner(q, k, query, keys, b, h, h // groups, i, j, real, real_keys, rows, columns, part, precision) * scale
    return tl.where(inside, z, float("-inf")), keys, j, real_keys


@triton.jit
def scores_of(q, k, place, kept, lists, scale, b, h, i, real, query, entry, groups, rows: tl.constexpr,
              columns: tl.constexpr, part: tl.constexpr, precision: tl.constexpr):  # fmt: skip
    """The scores of a tile alone."""
    found = keys_of(
        q, k, place, kept, lists, scale, b, h, i, real, query, entry, groups, rows, columns, part, precision
    )
    return found[0]


@triton.jit
def look(q, k, place, kept, lists, strengths, scale, groups, tops, bounds, live, rows: tl.constexpr,
         columns: tl.constexpr, part: tl.constexpr, power: tl.constexpr, precision: tl.constexpr):  # fmt: skip
    """The best x of each row, a lower bound on τ relative to it, and which tiles have a score above that."""
    tile, head = tl.program_id(0), tl.program_id(1)
    b, h = head // place.heads, head % place.heads
    a, exponent = tl.load(strengths + h * 3), tl.load(strengths + h * 3 + 1)
    i, real = tile_of(lists.query_order, tile, head, place.n, rows)
    query = rows_of(q, b, h, i, real)
    listed = b * lists.batch + h * lists.head
    begin = tl.load(lists.offsets + listed * lists.query_tiles + tile)
    end = tl.load(lists.offsets + listed * lists.query_tiles + tile + 1)
    top = tl.full((rows,), float("-inf"), tl.float32)
    bound = tl.full((rows,), float("-inf"), tl.float32)
    for entry in range(begin, end):
        x = scores_of(
            q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part, precision
        )
        best = tl.max(x, 1)
        top = tl.maximum(top, best)
        bound = tl.maximum(bound, best - 1.0)
        # From α = 2 on Newton's steps may overshoot.
        if a <= 1.0:
            for _ in tl.static_range(2):
                some = tl.where(bound > float("-inf"), bound, 0.0)
                total, slope = sums(tl.maximum(x - some[:, None], 0.0), exponent, power)
                bound = tl.where(total > 1.0, bound + rise(total, slope, a, power), bound)
    # Relative to the best, and a little lower, by what rounding may have added.
    seen = top > float("-inf")
    highest = tl.where(seen, top, 0.0)
    bound = tl.maximum(tl.where(seen, bound, 0.0) - highest - (4e-6 + 1e-6 * tl.abs(highest)), -1.0)
    place_of_row = head.to(tl.int64) * place.n + i
    tl.store(tops + place_of_row, top, mask=real)
    tl.store(bounds + place_of_row, bound, mask=real)
    lowest = tl.where(seen, highest + bound, float("inf"))
    marks = live + b.to(tl.int64) * lists.live_batch + h.to(tl.int64) * lists.live_head
    for entry in range(begin, end):
        x = scores_of(
            q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part, precision
        )
        above = tl.max(tl.max((x > lowest[:, None]).to(tl.int32), 1), 0)
        tl.store(marks + entry, above.to(tl.int8))


@triton.jit
def attend(q, k, v, out, place, kept, lists, strengths, scale, groups, tops, bounds, totals, live, most,
           rows: tl.constexpr, columns: tl.constexpr, part: tl.constexpr, power: tl.constexpr,
           precision: tl.constexpr):  # fmt: skip
    """τ of each row, in place of its lower bound, the sum of its weights, and the output."""
    tile, head = tl.program_id(0), tl.program_id(1)
    b, h = head // place.heads, head % place.heads
    a, exponent, edge = tl.load(strengths + h * 3), tl.load(strengths + h * 3 + 1), tl.load(strengths + h * 3 + 2)
    i, real = tile_of(lists.query_order, tile, head, place.n, rows)
    query = rows_of(q, b, h, i, real)
    listed = b * lists.batch + h * lists.head
    begin = tl.load(lists.offsets + listed * lists.query_tiles + tile)
    end = tl.load(lists.offsets + listed * lists.query_tiles + tile + 1)
    marks = live + b.to(tl.int64) * lists.live_batch + h.to(tl.int64) * lists.live_head
    place_of_row = head.to(tl.int64) * place.n + i
    top = tl.load(tops + place_of_row, mask=real, other=float("-inf"))
    seen = top > float("-inf")
    top = tl.where(seen, top, 0.0)
    tau = tl.load(bounds + place_of_row, mask=real, other=-1.0)
    # Above α = 2 a weight leaves the support with an infinite slope: the bracket is halved instead.
    low, high = tau, tl.zeros((rows,), tl.float32)
    step = 0
    moved = 1.0
    while (step < most) & (moved > 0.0):
        total = tl.zeros((rows,), tl.float32)
        slope = tl.zeros((rows,), tl.float32)
        for entry in range(begin, end):
            if tl.load(marks + entry) != 0:
                x = scores_of(
                    q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part,
                    precision,
                )  # fmt: skip
                more, less = sums(tl.maximum(x - top[:, None] - tau[:, None], 0.0), exponent, power)
                total += more
                slope += less
        if a <= 1.0:
            rises = tl.where(total > 1.0, rise(total, slope, a, power), 0.0)
            tau += rises
            moved = tl.max(rises, 0)
        else:
            enough = total >= 1.0
            low = tl.where(enough, tau, low)
            high = tl.where(enough, high, tau)
            tau = (low + high) * 0.5
            moved = tl.max(tl.where(seen & (high - low > 3e-8), 1.0, 0.0), 0)
        step += 1
    tau = tl.where(a <= 1.0, tau, low)
    total = tl.zeros((rows,), tl.float32)
    mean = tl.zeros((rows, v.width), tl.float32)
    for entry in range(begin, end):
        if tl.load(marks + entry) != 0:
            x, _, j, real_keys = keys_of(
                q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part, precision
            )
            y = x - top[:, None] - tau[:, None]
            inside = y > edge
            some = tl.where(inside, y, 1.0)
            if power == 2:
                weight = some * some
            elif power == 1:
                weight = some
            else:
                weight = tl.exp2(tl.log2(some) * exponent)
            weight = tl.where(inside, weight, 0.0)
            total += tl.sum(weight, 1)
            values = rows_of(v, b, h // groups, j, real_keys)
            mean = tl.dot(weight.to(values.dtype), values, mean, input_precision=precision)
    # λ is only known to rounding; a row without a pair has nothing.
    mean = mean / tl.where(total > 0, total, 1.0)[:, None]
    column = tl.arange(0, out.width)
    start = out.data + b.to(tl.int64) * out.batch + h.to(tl.int64) * out.head
    where = start + i[:, None] * out.token + column[None, :]
    tl.store(where, mean.to(out.data.dtype.element_ty), mask=real[:, None] & (column < out.size)[None, :])
    tl.store(bounds + place_of_row, tau, mask=real)
    tl.store(totals + place_of_row, total, mask=real)


@triton.jit
def _compared(place, kept, head, other, i, real, columns: tl.constexpr):
    """The products of some queries with one tile of keys, and which of these they compare."""
    j, real_keys = tile_of(None, other, head, place.m, columns)
    first_query, first_key = head.to(tl.int64) * place.n, head.to(tl.int64) * place.m
    inside = visible(place, head // place.heads, i, j, real, real_keys)
    if kept.among_queries is not None:
        inside = inside & shared(
            kept.among_queries, kept.among_keys, first_query, first_key, i, j, real, real_keys,
            kept.among_query_slots, kept.among_key_slots,
        )  # fmt: skip
    return products(kept, first_query, first_key, i, j, real, real_keys), inside


@triton.jit
def best(place, kept, limits, reach, rows: tl.constexpr, columns: tl.constexpr):
    """What the products of a rule have to reach, to lack no more than the limit of their row to all better ones.

    That is the least whole number t for which Σ (p − t)² ≤ limit² over the products p > t: as in `kernels/passed.h`,
    from below by Newton's method, where no step leads too far as the root of the sum is convex.
    """
    tile, head = tl.program_id(0), tl.program_id(1)
    i, real = tile_of(None, tile, head, place.n, rows)
    at = head.to(tl.int64) * place.n + i
    highest = tl.full((rows,), -32768, tl.int32)
    for other in range(tl.cdiv(place.m, columns)):
        product, inside = _compared(place, kept, head, other, i, real, columns)
        highest = tl.maximum(highest, tl.max(tl.where(inside, product, -32768), 1))
    limit = tl.load(limits + at, mask=real, other=0)
    square = limit.to(tl.int64) * limit
    # Products have 16 bits: there is nothing below.
    t = tl.maximum(highest - limit, -32768)
    found = tl.zeros((rows,), tl.int1)
    while tl.min(found.to(tl.int32), 0) == 0:
        total = tl.zeros((rows,), tl.int64)
        squares = tl.zeros((rows,), tl.int64)
        for other in range(tl.cdiv(place.m, columns)):
            product, inside = _compared(place, kept, head, other, i, real, columns)
            more = tl.where(inside, tl.maximum(product - t[:, None], 0), 0).to(tl.uint32)
            # The halves of squares, of 32 bits, by themselves: sums of 64 bits take too many registers.
            square_of = more * more
            high, low = tl.sum((square_of >> 16).to(tl.int32), 1), tl.sum((square_of & 65535).to(tl.int32), 1)
            total += tl.sum(more.to(tl.int32), 1)
            squares += high.to(tl.int64) * 65536 + low
        found = squares <= square
        root = tl.sqrt(squares.to(tl.float64))
        step = (root - limit.to(tl.float64)) * root / tl.maximum(total, 1).to(tl.float64)
        # More than rounding in float64 takes away, so that no step is too long.
        t = tl.where(found, t, t + tl.maximum(tl.ceil(step - 1e-6).to(tl.int32), 1))
    tl.store(reach + at, t, mask=real)
