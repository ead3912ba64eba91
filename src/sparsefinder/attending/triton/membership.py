"""What a kernel asks of the pairs of a tile: may they be seen, and has one of the graph's pieces them?

Tuples of tensors and numbers go to the kernels whole. What a graph has not is None there and costs nothing: the
compiler leaves it out. `b` and `h` are numbers, `i` and `j` the queries and keys of a tile by their places in the
sequence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

__all__ = ["Kept", "Seen", "Vectors", "inner", "members", "products", "rows_of", "shared", "visible"]


class Vectors(NamedTuple):
    """Queries, keys, values or gradients of them, and how far apart sequences, heads and tokens lie in memory."""

    data: Any
    batch: int
    head: int
    token: int
    size: Any  # how many numbers a vector has, and the power of two that holds them: known when a kernel is compiled
    width: Any


class Seen(NamedTuple):
    """The grid: sizes, and the layout with one number for each sequence."""

    heads: int
    n: int
    m: int
    causal: int
    offsets: Any
    key_lengths: Any
    query_lengths: Any


class Kept(NamedTuple):
    """The pieces of a graph, each kind of them joined to one. Tables have every sequence and every head."""

    bands: Any = None  # [count, heads, 2]: the lowest and the highest difference of positions
    band_count: Any = None
    columns: Any = None  # [batch, heads, m]
    rows: Any = None  # [batch, heads, n]
    query_buckets: Any = None  # [batch, heads, n, slots]
    key_buckets: Any = None
    query_slots: Any = None
    key_slots: Any = None
    words: Any = None  # a bit for every cell of every tile that is listed
    cell_rows: Any = None
    cell_columns: Any = None
    query_codes: Any = None  # [batch, heads, n, rank]
    key_codes: Any = None
    rank: Any = None
    reach: Any = None  # [batch, heads, n]
    among_queries: Any = None  # buckets outside which a rule has nothing
    among_keys: Any = None
    among_query_slots: Any = None
    among_key_slots: Any = None
    query_points: Any = None  # [batch, heads, n, size]
    key_points: Any = None
    point_size: Any = None
    radii: Any = None  # [heads]


@triton.jit
def rows_of(x, b, h, i, real):
    """Some vectors as a matrix; zeros for those that are not real."""
    return part_of(x, b, h, i, real, 0, x.width)


@triton.jit
def part_of(x, b, h, i, real, first, part: tl.constexpr):
    """The same of `part` of their numbers, from the `first` on."""
    column = first + tl.arange(0, part)
    start = x.data + b.to(tl.int64) * x.batch + h.to(tl.int64) * x.head
    inside = real[:, None] & (column < x.size)[None, :]
    return tl.load(start + i[:, None] * x.token + column[None, :], mask=inside, other=0.0)


@triton.jit
def inner(x, y, whole_x, whole_y, b, h, group, i, j, real_rows, real_columns, rows: tl.constexpr,
          columns: tl.constexpr, part: tl.constexpr, precision: tl.constexpr):  # fmt: skip
    """The products of some x of head `h` and some y of head `group`, over `part` of their numbers at a time.

    Vectors shorter than that are taken whole, as they were loaded already.
    """
    if part >= x.width:
        return tl.dot(whole_x, tl.trans(whole_y), input_precision=precision)
    found = tl.zeros((rows, columns), tl.float32)
    for first in range(0, x.width, part):
        some_x = part_of(x, b, h, i, real_rows, first, part)
        some_y = part_of(y, b, group, j, real_columns, first, part)
        found = tl.dot(some_x, tl.trans(some_y), found, input_precision=precision)
    return found


@triton.jit
def visible(place, b, i, j, real_rows, real_columns):
    """Whether the layout lets the pairs of a tile be seen."""
    rows = real_rows & (i < tl.load(place.query_lengths + b))
    columns = real_columns & (j < tl.load(place.key_lengths + b))
    before = (j[None, :] <= (i + tl.load(place.offsets + b))[:, None]) | (place.causal == 0)
    return rows[:, None] & columns[None, :] & before


@triton.jit
def shared(queries, keys, first_query, first_key, i, j, real_rows, real_columns, query_slots, key_slots):
    """Whether query and key have a bucket in common; none is −1 among queries and −2 among keys."""
    found = (i < 0)[:, None] & (j < 0)[None, :]
    for one in tl.static_range(query_slots):
        mine = tl.load(queries + (first_query + i) * query_slots + one, mask=real_rows, other=-1)
        for two in tl.static_range(key_slots):
            other = tl.load(keys + (first_key + j) * key_slots + two, mask=real_columns, other=-2)
            found = found | (mine[:, None] == other[None, :])
    return found


@triton.jit
def products(kept, first_query, first_key, i, j, real_rows, real_columns):
    """The products of codes of 8 bits: whole numbers, exact."""
    code = tl.arange(0, kept.rank)
    queries = tl.load(
        kept.query_codes + (first_query + i)[:, None] * kept.rank + code[None, :], mask=real_rows[:, None], other=0
    )
    keys = tl.load(
        kept.key_codes + (first_key + j)[:, None] * kept.rank + code[None, :], mask=real_columns[:, None], other=0
    )
    return tl.dot(queries, tl.trans(keys), out_dtype=tl.int32)


@triton.jit
def members(place, kept, b, h, i, j, real_rows, real_columns, entry, rows: tl.constexpr, columns: tl.constexpr):
    """Which pairs of a tile are in the graph. `entry` is the tile's number in the list of tiles."""
    head = b.to(tl.int64) * place.heads + h
    first_query, first_key = head * place.n, head * place.m
    found = (i < 0)[:, None] & (j < 0)[None, :]
    if kept.bands is not None:
        away = j[None, :] - (i + tl.load(place.offsets + b))[:, None]
        for band in tl.static_range(kept.band_count):
            ends = kept.bands + (band * place.heads + h) * 2
            found = found | ((away >= tl.load(ends)) & (away <= tl.load(ends + 1)))
    if kept.columns is not None:
        found = found | (tl.load(kept.columns + first_key + j, mask=real_columns, other=0) != 0)[None, :]
    if kept.rows is not None:
        found = found | (tl.load(kept.rows + first_query + i, mask=real_rows, other=0) != 0)[:, None]
    if kept.query_buckets is not None:
        found = found | shared(
            kept.query_buckets, kept.key_buckets, first_query, first_key, i, j, real_rows, real_columns,
            kept.query_slots, kept.key_slots,
        )  # fmt: skip
    if kept.words is not None:
        # Beside lists tokens are in their natural order: a pair's cell follows from its place in the tile.
        down: tl.constexpr = rows // kept.cell_rows
        across: tl.constexpr = (columns // kept.cell_columns + 31) // 32
        row, column = tl.arange(0, rows) // kept.cell_rows, tl.arange(0, columns) // kept.cell_columns
        start = kept.words + tl.cast(entry, tl.int64) * (down * across)
        word = tl.load(start + row[:, None] * across + (column // 32)[None, :])
        found = found | (((word >> (column % 32)[None, :]) & 1) != 0)
    if kept.query_codes is not None:
        reach = tl.load(kept.reach + first_query + i, mask=real_rows, other=0)
        near = products(kept, first_query, first_key, i, j, real_rows, real_columns) >= reach[:, None]
        if kept.among_queries is not None:
            near = near & shared(
                kept.among_queries, kept.among_keys, first_query, first_key, i, j, real_rows, real_columns,
                kept.among_query_slots, kept.among_key_slots,
            )  # fmt: skip
        found = found | near
    if kept.query_points is not None:
        apart = tl.zeros((rows, columns), tl.float32)
        # Dimension by dimension, without fused steps, as everywhere else: so the same pairs are in.
        for one in range(kept.point_size):
            mine = tl.load(kept.query_points + (first_query + i) * kept.point_size + one, mask=real_rows, other=0.0)
            other = tl.load(kept.key_points + (first_key + j) * kept.point_size + one, mask=real_columns, other=0.0)
            difference = mine[:, None] - other[None, :]
            apart += difference * difference
        found = found | (apart <= tl.load(kept.radii + h))
    return found & visible(place, b, i, j, real_rows, real_columns)
