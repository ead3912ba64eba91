"""A finder of its own for each head: per-head settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Band, Bands, Blocks, Buckets, Columns, Index, Near, Pairs, Piece, Rows, Rule, Truth
from ..errors import InputError
from ..learning.projection import Projection
from .about import About, Place
from .base import Finder, Keys, Queries, Several

__all__ = ["Heads", "of_heads"]


@dataclass(frozen=True, eq=False)
class Heads(Finder):
    """Predict the graph of each head with another finder.

    >>> Heads((KMeans(few), KMeans(many)), which=(0, 0, 1, 0))(q, k)  # the third of four heads has many centroids

    finders: made for all heads each; of their tensors only what belongs to their own heads is used.
    which: the place in `finders` of each head's.
    """

    finders: tuple[Finder, ...]
    which: tuple[int, ...]

    about = About("heads", "per head", "reference")

    def __post_init__(self) -> None:
        if not all(0 <= one < len(self.finders) for one in self.which):
            raise InputError("which", self.which, f"for each head a number from 0 to {len(self.finders) - 1}")

    @property
    def causal_safe(self) -> bool:
        return all(each.causal_safe for each in self._used)

    @property
    def query_wise(self) -> bool:
        return all(each.query_wise for each in self._used)

    @property
    def ready(self) -> bool:
        return all(each.ready for each in self._used)

    def at(self, place: Place) -> Heads:
        return Heads(tuple(each.at(place) for each in self.finders), self.which)

    def apart(self, place: Place) -> Heads:
        parts = tuple(each.apart(place) for each in self.finders)
        same = all(one is other for one, other in zip(parts, self.finders, strict=True))
        return self if same else Heads(parts, self.which)

    @property
    def _used(self) -> list[Finder]:
        return [self.finders[one] for one in sorted(set(self.which))]

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if grid.heads != len(self.which):
            raise InputError("q", f"{grid.heads} heads", f"{len(self.which)}, as this was made for")
        pieces: list[Piece] = []
        for number, finder in enumerate(self.finders):
            heads = torch.tensor([head for head, one in enumerate(self.which) if one == number], device=grid.device)
            if len(heads):
                part = of_heads(finder, heads.long())(q[:, heads], k[:, heads], grid.layout)
                pieces += [_spread(piece, heads, part.grid, grid.heads) for piece in part.pieces]
        return Graph(grid, tuple(_joined(pieces)))

    def cost(self, n: int, m: int, d: int) -> float:
        return sum(self.finders[one].cost(n, m, d) for one in self.which) / max(1, len(self.which))

    def reads(self, n: int, m: int, d: int) -> float:
        return sum(self.finders[one].reads(n, m, d) for one in self.which) / max(1, len(self.which))


def of_heads(finder: Finder, heads: Int[Tensor, " some"]) -> Finder:
    """The finder for some of its heads. Every tensor of a finder has one entry per head."""
    if isinstance(finder, Several):
        return type(finder)(tuple(of_heads(each, heads) for each in finder.finders))
    changed: dict[str, Any] = {}
    for field in fields(finder):
        value = getattr(finder, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = value[heads.to(value.device)]
        elif isinstance(value, Projection):
            queries = value.queries[heads]
            changed[field.name] = Projection(queries, queries if value.shared else value.keys[heads])
    return replace(finder, **changed) if changed else finder


def _spread(piece: Piece, heads: Int[Tensor, " some"], grid: Grid, total: int) -> Piece:
    """A piece of some heads as one of all: of the same kind if kernels know it so."""

    def wide(table: Tensor, others: int, axis: int = 1) -> Tensor:
        own = (*table.shape[:axis], len(heads), *table.shape[axis + 1 :])
        shape = (*table.shape[:axis], total, *table.shape[axis + 1 :])
        return table.new_full(shape, others).index_copy_(axis, heads, table.expand(own))

    match piece:
        case Band(lower=None, upper=None):
            return Rows(wide(torch.ones(1, 1, grid.n, dtype=torch.bool, device=grid.device), False))
        case Band(lower=int(lower), upper=int(upper)) if lower == -upper:
            return Bands(wide(torch.full((1,), upper, device=grid.device), -1, 0))
        case Bands():
            return Bands(wide(piece.reach, -1, 0))
        case Columns():
            return Columns(wide(piece.keys, False))
        case Rows():
            return Rows(wide(piece.queries, False))
        case Pairs() | Blocks() if piece.heads == len(heads):
            # Heads are in order, and so are the lists: those of other heads are empty.
            counts = wide(piece.offsets.diff().view(piece.batch, piece.heads, -1), 0)
            return replace(piece, offsets=torch.nn.functional.pad(counts.flatten().cumsum(0), (1, 0)), heads=total)
        case Buckets():
            # Other heads are in none.
            return Buckets(wide(piece.queries, -1), wide(piece.keys, -1))
        case Rule(among=None, relative=True):
            # Nothing reaches more than the best.
            codes = wide(piece.queries, 0), wide(piece.keys, 0)
            return Rule(*codes, wide(piece.limits, -1), replace(grid, heads=total), wide(piece.ranks, 0, 0))
        case Near():
            # No distance is negative.
            return Near(wide(piece.queries, 0), wide(piece.keys, 0), wide(piece.radii, -1, 0))
    places = torch.full((total,), -1, device=heads.device)
    places[heads] = torch.arange(len(heads), device=heads.device)
    return _OfHeads(piece, places, grid)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The same union in fewer pieces, so that kernels have fewer to walk: those that differ in their heads alone are
    made one.
    """
    joined: list[Piece] = []
    for piece in pieces:
        for place, other in enumerate(joined):
            union = _union(other, piece)
            if union is not None:
                joined[place] = union
                break
        else:
            joined.append(piece)
    return joined


def _union(one: Piece, other: Piece) -> Piece | None:
    """Two pieces of a kind as one, if they can be."""
    match one, other:
        case Bands(), Bands():
            return Bands(torch.maximum(one.reach, other.reach))
        case Columns(), Columns():
            return Columns(one.keys | other.keys)
        case Rows(), Rows():
            return Rows(one.queries | other.queries)
        case Blocks(), Blocks() if _alike(one, other):
            return Blocks.of_pairs(_all_of(one.pairs, other.pairs), one.query_size, one.key_size)
        case Pairs(), Pairs() if one.batch == other.batch:
            return _all_of(one, other)
    return None


def _alike(one: Blocks, other: Blocks) -> bool:
    sizes = ((each.batch, each.query_size, each.key_size, each.key_blocks) for each in (one, other))
    return len(set(sizes)) == 1


def _all_of(one: Pairs, other: Pairs) -> Pairs:
    """What is in either list, of as many heads."""
    numbers = torch.unique(torch.cat([each.rows * one.m + each.keys for each in (one, other)]))
    return Pairs.of_rows(numbers // one.m, numbers % one.m, one.batch, one.heads, one.n, one.m)


@dataclass(frozen=True, eq=False)
class _OfHeads:
    """A piece that only some heads have."""

    piece: Piece
    places: Int[Tensor, " heads"]
    grid: Grid
    uniform = False

    @property
    def group(self) -> int:
        return self.piece.group

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        place = self.places[h]
        return self.piece.contains(self.grid, b, place.clamp(min=0), i, j) & (place >= 0)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        place = self.places[h]
        return self.piece.bound(self.grid, b, place.clamp(min=0), i, rows) * (place >= 0)

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        place = self.places[h]
        keys = self.piece.candidates(self.grid, b, place.clamp(min=0), i, rows)
        return torch.where(place[:, None] >= 0, keys, -1)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        inner = self.piece.mask(self.grid, queries).expand(self.grid.batch, self.grid.heads, -1, -1)
        return inner[:, self.places.clamp(min=0)] & (self.places >= 0)[:, None, None]
