"""Predicted graphs as small boolean tiles: some heads, some queries, all keys, written where the caller wants them.

At the lengths that sweeps are run on, writing every pair takes a fraction of a nanosecond, which is less than listing
the few that are predicted. A bucket is a bit of a word: to share one of many takes one operation for each pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from ...core.graph import Graph
from ...core.layout import Grid
from ...core.pieces import Blocks, Buckets, Columns, Pairs, Piece, Rows
from ...finders import Distance, Finder, Oracle
from ...finders.base import projected
from ...learning.sample import Sample

__all__ = ["GraphMasks", "Masks", "masks_of"]

Tile = Bool[np.ndarray, "heads rows m"]
Array = NDArray[Any]
Paint = Callable[[slice, slice, Tile], None]

# Buckets per word.
BITS = 64


class Masks(ABC):
    """The tiles of one prediction, or of several that share their work: `variants` of them."""

    variants: int

    @abstractmethod
    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        """Set what is predicted for these heads (numbered through all sequences) and queries, and clear the rest.

        Variants are asked for in their order, tile by tile. What may not be seen may be set.
        """


def masks_of(finders: Sequence[Finder], sample: Sample, gold: Graph) -> list[Masks]:
    """What finders predict, in their order. Neighbours that differ only in a threshold share a pass over the pairs."""
    found: list[Masks] = []
    waiting: list[Distance] = []
    for finder in finders:
        if isinstance(finder, Distance):
            if waiting and finder.projection is not waiting[0].projection:
                found.append(_DistanceMasks(waiting, sample))
                waiting = []
            waiting.append(finder)
            continue
        if waiting:
            found.append(_DistanceMasks(waiting, sample))
            waiting = []
        known = isinstance(finder, Oracle) and (finder.alpha, finder.scale) == (sample.alpha, sample.score_scale)
        found.append(GraphMasks(gold if known else finder(sample.q, sample.k, sample.layout)))
    return [*found, _DistanceMasks(waiting, sample)] if waiting else found


class GraphMasks(Masks):
    """The tiles of a graph."""

    variants = 1

    def __init__(self, graph: Graph) -> None:
        self._paints = [_paint_of(piece, graph.grid) for piece in graph.pieces]

    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        out[...] = False
        self.add(heads, rows, out)

    def add(self, heads: slice, rows: slice, out: Tile) -> None:
        """Set what is in the graph, and leave the rest as it is."""
        for paint in self._paints:
            paint(heads, rows, out)


class _DistanceMasks(Masks):
    """`Distance` with several thresholds: distances are computed once, rounded as the finder rounds them."""

    def __init__(self, finders: Sequence[Distance], sample: Sample) -> None:
        self.variants = len(finders)
        batch, heads = sample.q.shape[:2]
        q, k = projected(finders[0].projection, sample.q, sample.k)
        # One dimension after the other, each in one run.
        self._q, self._k = (tokens.flatten(0, 1).mT.contiguous().numpy() for tokens in (q, k))
        limits = []
        for finder in finders:
            t = torch.as_tensor(finder.t, dtype=torch.float64).expand(heads)
            radius = t.sqrt() if finder.squared else t
            limits.append(radius.square().to(q.dtype).repeat(batch).numpy())
        self._limits = limits
        self._far = _Scratch(self._q.dtype)
        self._square = _Scratch(self._q.dtype)

    def paint(self, variant: int, heads: slice, rows: slice, out: Tile) -> None:
        far = self._far.like(out)
        if variant == 0:
            square = self._square.like(out)
            for place in range(self._q.shape[1]):
                into = square if place else far
                np.subtract(self._q[heads, place, rows, None], self._k[heads, place, None], out=into)
                np.multiply(into, into, out=into)
                if place:
                    np.add(far, square, out=far)
        np.less_equal(far, self._limits[variant][heads, None, None], out=out)


class _Scratch:
    """Room for a tile that is used again: asking for new memory time and again is slow."""

    def __init__(self, dtype: Any) -> None:
        self._room = np.empty(0, dtype)

    def like(self, out: Tile) -> Array:
        if len(self._room) < out.size:
            self._room = np.empty(out.size, self._room.dtype)
        return self._room[: out.size].reshape(out.shape)


def _paint_of(piece: Piece, grid: Grid) -> Paint:
    if isinstance(piece, Buckets):
        return _buckets(piece, grid)
    if isinstance(piece, Columns):
        keys = _by_head(piece.keys.numpy(), grid)
        return lambda heads, rows, out: _unite(out, keys[heads, None])
    if isinstance(piece, Rows):
        queries = _by_head(piece.queries.numpy(), grid)
        return lambda heads, rows, out: _unite(out, queries[heads, rows, None])
    if isinstance(piece, Blocks) and piece.query_size == piece.key_size == 1:
        return _pairs(piece.pairs, grid)
    if isinstance(piece, Pairs):
        return _pairs(piece, grid)
    return _any_piece(piece, grid)


def _unite(out: Tile, more: Array) -> None:
    np.logical_or(out, more, out=out)


def _by_head(table: Array, grid: Grid) -> Array:
    """A table with an entry for every head of every sequence, numbered through."""
    size = table.shape[2:]
    return np.broadcast_to(table, (grid.batch, grid.heads, *size)).reshape(grid.batch * grid.heads, *size)


def _buckets(piece: Buckets, grid: Grid) -> Paint:
    count = 1 + max(int(table.amax()) if table.numel() else -1 for table in (piece.queries, piece.keys))
    words: list[tuple[Array, Array, _Scratch]] = []
    for first in range(0, count, BITS):
        kind = np.min_scalar_type((1 << min(BITS, count - first)) - 1)
        of_queries, of_keys = (_words(table, first, kind) for table in (piece.queries, piece.keys))
        words.append((_by_head(of_queries, grid), _by_head(of_keys, grid), _Scratch(kind)))
    found = _Scratch(np.bool_)

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        for of_queries, of_keys, scratch in words:
            shared = np.bitwise_and(of_queries[heads, rows, None], of_keys[heads, None], out=scratch.like(out))
            _unite(out, np.not_equal(shared, 0, out=found.like(out)))

    return paint


def _words(table: Tensor, first: int, kind: Any) -> Array:
    """For each token the set of its buckets from `first` on, as the bits of a word."""
    slots = table.numpy() - first
    inside = (slots >= 0) & (slots < BITS)
    bits = np.where(inside, np.uint64(1) << np.where(inside, slots, 0).astype(np.uint64), np.uint64(0))
    return np.bitwise_or.reduce(bits, -1).astype(kind)


def _pairs(piece: Pairs, grid: Grid) -> Paint:
    offsets, keys, owner = piece.offsets.numpy(), piece.keys.numpy(), piece.rows.numpy()

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        for place, number in enumerate(range(heads.start, heads.stop)):
            head = number // grid.heads * (piece.batch > 1) * piece.heads + number % grid.heads * (piece.heads > 1)
            first = head * piece.n + rows.start
            low, high = offsets[first], offsets[first + rows.stop - rows.start]
            out[place, owner[low:high] - first, keys[low:high]] = True

    return paint


def _any_piece(piece: Piece, grid: Grid) -> Paint:
    """Whatever else there is: its matrix for all heads, kept for as long as the queries are the same."""
    kept: dict[tuple[int, int], Tensor] = {}

    def paint(heads: slice, rows: slice, out: Tile) -> None:
        asked = rows.start, rows.stop
        if asked not in kept:
            kept.clear()
            mask = piece.mask(grid, rows)
            kept[asked] = mask.expand(grid.batch, grid.heads, out.shape[1], grid.m)
        number = torch.arange(heads.start, heads.stop)
        _unite(out, kept[asked][number // grid.heads, number % grid.heads].numpy())

    return paint
