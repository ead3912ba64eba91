"""Backward, over tiles that have a weight: gradients of queries and α by query tiles, of keys and values by key tiles.

With p the weights and s = p^(1 − a) their slopes, the gradient of a score is s (g − Σ s g / Σ s), where g is that of
the weight: the same as in core/entmax.py. Nothing is added to memory by two programs, so results do not vary.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .forward import keys_of, tile_of
from .membership import inner, members, rows_of

__all__ = ["of_keys", "of_queries"]


@triton.jit
def weighed(x, top, tau, total, exponent, edge, power: tl.constexpr):
    """The weights of a tile and their slopes."""
    y = x - top[:, None] - tau[:, None]
    inside = y > edge
    some = tl.where(inside, y, 1.0)
    if power == 2:
        weight, slope = some * some, some
    elif power == 1:
        weight, slope = some, tl.full(some.shape, 1.0, tl.float32)
    else:
        weight = tl.exp2(tl.log2(some) * exponent)
        slope = weight / some
    return tl.where(inside, weight, 0.0) / tl.where(total > 0, total, 1.0)[:, None], tl.where(inside, slope, 0.0)


@triton.jit
def alpha_slope(weight, a):
    """∂p/∂α at a fixed λ: −p log²p (e^(−y) − 1 + y) / y² with y = a log p, by its series where that loses digits."""
    log = tl.log(tl.where(weight > 0, weight, 1.0))
    y = a * log
    term = tl.full(y.shape, 0.5, tl.float32)
    series = tl.zeros_like(y)
    for count in range(3, 14):
        series += term
        term = -term * y / count
    small = y > -1.0
    apart = tl.where(small, -1.0, y)
    quotient = (tl.exp(-apart) - 1.0 + apart) / (apart * apart)
    return -weight * log * log * tl.where(small, series, quotient)


@triton.jit
def of_queries(q, k, v, grad, grad_q, place, kept, lists, strengths, scale, groups, tops, taus, totals, means,
               grad_alphas, live, rows: tl.constexpr, columns: tl.constexpr, part: tl.constexpr, power: tl.constexpr,
               precision: tl.constexpr):  # fmt: skip
    """Gradients of a tile of queries, and Σ s g / Σ s of each of its rows, which those of the keys need."""
    tile, head = tl.program_id(0), tl.program_id(1)
    b, h = head // place.heads, head % place.heads
    a, exponent, edge = tl.load(strengths + h * 3), tl.load(strengths + h * 3 + 1), tl.load(strengths + h * 3 + 2)
    i, real = tile_of(lists.query_order, tile, head, place.n, rows)
    query, upstream = rows_of(q, b, h, i, real), rows_of(grad, b, h, i, real)
    listed = b * lists.batch + h * lists.head
    begin = tl.load(lists.offsets + listed * lists.query_tiles + tile)
    end = tl.load(lists.offsets + listed * lists.query_tiles + tile + 1)
    marks = live + b.to(tl.int64) * lists.live_batch + h.to(tl.int64) * lists.live_head
    place_of_row = head.to(tl.int64) * place.n + i
    top = tl.load(tops + place_of_row, mask=real, other=0.0)
    top = tl.where(top > float("-inf"), top, 0.0)
    tau = tl.load(taus + place_of_row, mask=real, other=0.0)
    total = tl.load(totals + place_of_row, mask=real, other=0.0)
    along = tl.zeros((rows,), tl.float32)
    slopes = tl.zeros((rows,), tl.float32)
    for entry in range(begin, end):
        if tl.load(marks + entry) != 0:
            x, keys, j, real_keys = keys_of(
                q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part, precision
            )
            weight, slope = weighed(x, top, tau, total, exponent, edge, power)
            values = rows_of(v, b, h // groups, j, real_keys)
            towards = inner(
                grad, v, upstream, values, b, h, h // groups, i, j, real, real_keys, rows, columns, part, precision
            )
            along += tl.sum(slope * towards, 1)
            slopes += tl.sum(slope, 1)
    mean = along / tl.maximum(slopes, 1e-30)
    tl.store(means + place_of_row, mean, mask=real)
    result = tl.zeros((rows, q.width), tl.float32)
    of_alpha = tl.zeros((rows,), tl.float32)
    for entry in range(begin, end):
        if tl.load(marks + entry) != 0:
            x, keys, j, real_keys = keys_of(
                q, k, place, kept, lists, scale * a, b, h, i, real, query, entry, groups, rows, columns, part, precision
            )
            weight, slope = weighed(x, top, tau, total, exponent, edge, power)
            values = rows_of(v, b, h // groups, j, real_keys)
            towards = inner(
                grad, v, upstream, values, b, h, h // groups, i, j, real, real_keys, rows, columns, part, precision
            )
            centred = towards - mean[:, None]
            result = tl.dot((slope * centred).to(keys.dtype), keys, result, input_precision=precision)
            if grad_alphas is not None:
                of_alpha += tl.sum(alpha_slope(weight, a) * centred, 1)
    column = tl.arange(0, grad_q.width)
    start = grad_q.data + b.to(tl.int64) * grad_q.batch + h.to(tl.int64) * grad_q.head
    where = start + i[:, None] * grad_q.token + column[None, :]
    inside = real[:, None] & (column < grad_q.size)[None, :]
    tl.store(where, (result * scale).to(grad_q.data.dtype.element_ty), mask=inside)
    if grad_alphas is not None:
        tl.store(grad_alphas + place_of_row, of_alpha, mask=real)


@triton.jit
def of_keys(q, k, v, grad, grad_k, grad_v, place, kept, lists, back, strengths, scale, groups, together, tops, taus,
            totals, means, live, rows: tl.constexpr, columns: tl.constexpr, part: tl.constexpr, power: tl.constexpr,
            precision: tl.constexpr):  # fmt: skip
    """Gradients of a tile of keys and of its values, over `together` heads that share them."""
    tile, some_heads = tl.program_id(0), tl.program_id(1)
    groups_of_heads = place.heads // together
    b, first = some_heads // groups_of_heads, some_heads % groups_of_heads * together
    j, real_keys = tile_of(lists.key_order, tile, b * place.heads + first, place.m, columns)
    keys, values = rows_of(k, b, first // groups, j, real_keys), rows_of(v, b, first // groups, j, real_keys)
    result_k = tl.zeros((columns, k.width), tl.float32)
    result_v = tl.zeros((columns, v.width), tl.float32)
    for other in range(together):
        h = first + other
        a, exponent, edge = tl.load(strengths + h * 3), tl.load(strengths + h * 3 + 1), tl.load(strengths + h * 3 + 2)
        head = b * place.heads + h
        listed = b * lists.batch + h * lists.head
        marks = live + b.to(tl.int64) * lists.live_batch + h.to(tl.int64) * lists.live_head
        begin = tl.load(back.offsets + listed * back.key_tiles + tile)
        end = tl.load(back.offsets + listed * back.key_tiles + tile + 1)
        for number in range(begin, end):
            entry = tl.load(back.entries + number)
            if tl.load(marks + entry) != 0:
                i, real = tile_of(lists.query_order, tl.load(back.tiles + number), head, place.n, rows)
                query, upstream = rows_of(q, b, h, i, real), rows_of(grad, b, h, i, real)
                place_of_row = head.to(tl.int64) * place.n + i
                top = tl.load(tops + place_of_row, mask=real, other=0.0)
                top = tl.where(top > float("-inf"), top, 0.0)
                tau = tl.load(taus + place_of_row, mask=real, other=0.0)
                total = tl.load(totals + place_of_row, mask=real, other=0.0)
                mean = tl.load(means + place_of_row, mask=real, other=0.0)
                chosen = members(place, kept, b, h, i, j, real, real_keys, entry, rows, columns)
                z = inner(
                    q, k, query, keys, b, h, first // groups, i, j, real, real_keys, rows, columns, part, precision
                )
                x = tl.where(chosen, z * (scale * a), float("-inf"))
                weight, slope = weighed(x, top, tau, total, exponent, edge, power)
                result_v = tl.dot(tl.trans(weight.to(upstream.dtype)), upstream, result_v, input_precision=precision)
                towards = inner(
                    grad, v, upstream, values, b, h, first // groups, i, j, real, real_keys, rows, columns, part,
                    precision,
                )  # fmt: skip
                centred = (slope * (towards - mean[:, None])).to(query.dtype)
                result_k = tl.dot(tl.trans(centred), query, result_k, input_precision=precision)
    start = b.to(tl.int64) * grad_k.batch + (first // together).to(tl.int64) * grad_k.head
    column = tl.arange(0, grad_k.width)
    where = grad_k.data + start + j[:, None] * grad_k.token + column[None, :]
    inside = real_keys[:, None] & (column < grad_k.size)[None, :]
    tl.store(where, (result_k * scale).to(grad_k.data.dtype.element_ty), mask=inside)
    start = b.to(tl.int64) * grad_v.batch + (first // together).to(tl.int64) * grad_v.head
    column = tl.arange(0, grad_v.width)
    where = grad_v.data + start + j[:, None] * grad_v.token + column[None, :]
    inside = real_keys[:, None] & (column < grad_v.size)[None, :]
    tl.store(where, result_v.to(grad_v.data.dtype.element_ty), mask=inside)
