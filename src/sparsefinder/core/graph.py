"""Graph: which query–key pairs to look at. A union of pieces, never a matrix unless `dense()` is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError, check_type
from . import listing, ratios
from .checks import NUMBERS, TRUTHS, check_block, check_grid, check_indices, check_table
from .chunks import CHUNK, chunks
from .flex import block_mask
from .layout import Grid, Layout
from .moving import moved
from .pieces import Band, Blocks, Buckets, Columns, EveryPair, Index, Pairs, Piece, Rows, Truth, words

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["Graph"]

# Queries that share one list of keys where nothing but bands and global tokens decides.
BAND_GROUP = 64
# To list a key takes as long as to ask about so many pairs of a matrix, about (11 to 105 at 512 tokens).
LISTED = 64


@dataclass(frozen=True, eq=False)
class Graph:
    """The pairs of [batch, head, query, key] that are in at least one piece and that the grid's layout lets be seen.

    >>> grid = Layout(causal=True).of(q, k)
    >>> graph = Graph.band(-5, 0, grid) | Graph.columns(first_token, grid)
    Graph(2 × 12 heads, 512 × 512, causal: band −5…0 | 1 column)
    >>> graph.sparsity()
    """

    grid: Grid
    pieces: tuple[Piece, ...] = ()

    def __post_init__(self) -> None:
        check_grid(self.grid)

    def __repr__(self) -> str:
        return f"Graph({self.grid.words}: {words(self.pieces)})"

    @classmethod
    def full(cls, grid: Grid) -> Graph:
        """Every pair that the layout lets be seen."""
        return cls.band(None, None, grid)

    @classmethod
    def band(cls, lower: int | None, upper: int | None, grid: Grid) -> Graph:
        """Keys from `lower` to `upper` places after the query's position, both included; None is no limit."""
        return cls(grid, (Band(lower, upper),))

    @classmethod
    def columns(cls, keys: Bool[Tensor, "batch heads m"], grid: Grid) -> Graph:
        """Keys that every query sees. Batch and heads may have size 1 here and below: the same for all."""
        check_table("keys", keys, TRUTHS, grid, "m")
        return cls(grid, (Columns(keys),))

    @classmethod
    def rows(cls, queries: Bool[Tensor, "batch heads n"], grid: Grid) -> Graph:
        """Queries that see every key."""
        check_table("queries", queries, TRUTHS, grid, "n")
        return cls(grid, (Rows(queries),))

    @classmethod
    def buckets(
        cls, queries: Int[Tensor, "#batch #heads n slots"], keys: Int[Tensor, "#batch #heads m slots2"], grid: Grid
    ) -> Graph:
        """Pairs whose query and key have a bucket in common; −1 is no bucket."""
        check_table("queries", queries, NUMBERS, grid, "n")
        check_table("keys", keys, NUMBERS, grid, "m")
        return cls(grid, (Buckets(queries, keys),))

    @classmethod
    def blocks(cls, chosen: Bool[Tensor, "batch heads query_blocks key_blocks"], size: int, grid: Grid) -> Graph:
        """Square blocks of neighbouring queries and keys, the last ones cut off at the edge."""
        check_table("chosen", chosen, TRUTHS, grid, "n", "m", size=size)
        return cls(grid, (Blocks.of_pairs(Pairs.of_mask(chosen), size, size),))

    @classmethod
    def of_dense(cls, chosen: Bool[Tensor, "batch heads n m"], grid: Grid) -> Graph:
        """The pairs that are true in a matrix."""
        check_table("chosen", chosen, TRUTHS, grid, "n", "m")
        return cls(grid, (Pairs.of_mask(chosen),))

    @classmethod
    def of_pairs(cls, batch: Index, head: Index, query: Index, key: Index, grid: Grid) -> Graph:
        """Explicit pairs, in any order, repeated or not."""
        check_indices(grid, batch=batch, head=head, query=query, key=key)
        return cls.of_numbers(((batch * grid.heads + head) * grid.n + query) * grid.m + key, grid)

    @classmethod
    def of_numbers(cls, pairs: Index, grid: Grid) -> Graph:
        """Explicit pairs by their numbers ((batch · heads + head) · n + query) · m + key."""
        check_indices(grid, pairs=pairs)
        in_order = bool((pairs[1:] > pairs[:-1]).all())
        return cls(grid, (Pairs.of_numbers(pairs if in_order else torch.unique(pairs), grid),))

    def __or__(self, other: Graph) -> Graph:
        _check_graph("graphs of |", other)
        if not self.grid.same_as(other.grid):
            raise InputError("graphs of |", f"{self.grid} and {other.grid}", "two graphs of the same sizes and layout")
        return Graph(self.grid, self.pieces + other.pieces)

    def __and__(self, other: Graph) -> Graph:
        _check_graph("graphs of &", other)
        if self.grid.shape != other.grid.shape:
            raise InputError("graphs of &", f"{self.grid.shape} and {other.grid.shape}", "two graphs of the same sizes")
        few, many = sorted((self, other), key=Graph.list_bound)
        return Graph(few.grid, tuple(_Within(piece, many) for piece in few.pieces))

    def to(self, device: str | torch.device) -> Graph:
        """The same graph on a device."""
        return moved(self, device)

    def contains(self, batch: Index, head: Index, query: Index, key: Index) -> Truth:
        """Whether the graph has these pairs; the indices broadcast."""
        batch, head, query, key = (
            torch.as_tensor(index, device=self.grid.device) for index in (batch, head, query, key)
        )
        found = torch.zeros((), dtype=torch.bool, device=self.grid.device)
        inside = key.clamp(0, max(self.grid.m - 1, 0))
        for piece in self.pieces:
            found = found | piece.contains(self.grid, batch, head, query, inside)
        return found & self.grid.visible(batch, query, key)

    def among(
        self,
        b: Int[Tensor, " count"],
        h: Int[Tensor, " count"],
        i: Int[Tensor, "count group"],
        keys: Int[Tensor, "count width"],
    ) -> Bool[Tensor, "count #group width"]:
        """Which of the keys that `lists` gave for a group of queries each of them really has."""
        return listing.among(self.grid, self.pieces, b, h, i, keys)

    def mask(self, queries: slice) -> Bool[Tensor, "batch heads count m"]:
        """The pairs of some queries as a matrix: for work in chunks."""
        grid = self.grid
        b, i, j = (torch.arange(size, device=grid.device) for size in (grid.batch, grid.n, grid.m))
        seen = grid.visible(b[:, None, None, None], i[queries, None], j)
        found = torch.zeros((), dtype=torch.bool, device=grid.device)
        for piece in self.pieces:
            found = found | piece.mask(grid, queries)
        return (found & seen).expand(grid.batch, grid.heads, len(i[queries]), grid.m)

    def dense(self) -> Bool[Tensor, "batch heads n m"]:
        """The whole matrix, for small sizes and for the eye."""
        return self.mask(slice(0, self.grid.n))

    def lists(
        self, group: int = 1, budget: int = CHUNK
    ) -> Iterator[tuple[Int[Tensor, " count"], Int[Tensor, "count width"]]]:
        """The keys of every row, in chunks: row numbers and, for each row, its keys in order, then −1.

        A row is (batch, head, query), numbered in that order. With `group`, only every group-th query is listed, with
        the keys of all queries of its group. Rows of like length come together, so that little is lost to padding; a
        chunk lists about `budget` keys.
        """
        return listing.lists(self.grid, self.pieces, group, budget)

    @property
    def group(self) -> int:
        """How many neighbouring queries have (nearly) the same keys, so that one list can serve them."""
        return math.gcd(*(piece.group for piece in self.pieces)) or BAND_GROUP

    def list_bound(self, group: int = 1) -> int:
        """At most how many keys `lists` names, without listing them: repeated and hidden ones count too."""
        return int(listing.bounds(self.grid, self.pieces, listing.firsts(self.grid, group), group).sum())

    def degrees(self) -> Int[Tensor, "batch heads n"]:
        """How many keys each query has, every pair counted once."""
        grid = self.grid
        if self.by_matrix:
            parts = [self.mask(queries).sum(-1) for queries in self.chunks()]
            return torch.cat(parts, -1) if parts else torch.zeros(grid.shape[:3], dtype=torch.long, device=grid.device)
        degrees = torch.zeros(grid.batch * grid.heads * grid.n, dtype=torch.long, device=grid.device)
        for rows, keys in self.lists():
            degrees[rows] = (keys >= 0).sum(-1)
        return degrees.view(grid.batch, grid.heads, grid.n)

    def count(self) -> Int[Tensor, "batch heads"]:
        """How many pairs each head has, |G| in the paper."""
        return self.degrees().sum(-1)

    def sparsity(self) -> Float[Tensor, "batch heads"]:
        """1 − |G| / (pairs that can be seen), Eq. 5 with its footnote; NaN where there is nothing to see."""
        return ratios.sparsity(self.count(), self.grid.degrees().sum(-1, keepdim=True))

    def recall(self, gold: Graph) -> Float[Tensor, "batch heads"]:
        """The share of gold pairs that this graph has, Eq. 4; NaN where there is no gold pair."""
        _check_graph("gold", gold)
        return ratios.recall((gold & self).count(), gold.count())

    def pairs(self) -> Pairs:
        """All pairs listed one by one, as a single piece: the one there is, if it is such a list and all is visible."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Pairs) and listing.shows(self.grid, self.pieces[0]):
            return self.pieces[0]
        grid = self.grid
        if self.by_matrix:
            entries = [self._numbers(queries) for queries in self.chunks()]
        else:
            entries = [(rows[:, None] * grid.m + keys)[keys >= 0] for rows, keys in self.lists()]
        none = torch.zeros(0, dtype=torch.long, device=grid.device)
        return Pairs.of_numbers(torch.cat([none, *entries]).sort().values, grid)

    def coarsen(self, block: int) -> Graph:
        """The blocks of `block` × `block` positions in which this graph has a pair: a superset of it."""
        return Graph(self.grid, (Blocks.of_pairs(self.coarse_pairs(block), block, block),))

    def coarse_pairs(self, block: int) -> Pairs:
        """The same blocks, by their numbers."""
        check_block("block", block)
        grid, pairs = self.grid, self.pairs()
        b, h, i = grid.unravel(pairs.rows)
        n, m = -(-grid.n // block), -(-grid.m // block)
        row = (b * grid.heads + h) * n + i // block
        entries = torch.unique(row * m + pairs.keys // block)
        return Pairs.of_rows(entries // m, entries % m, grid.batch, grid.heads, n, m)

    def to_block_mask(self, block: int = 128) -> BlockMask:
        """The same pairs for `torch.nn.attention.flex_attention`: tiles, and a bit for each pair of a tile."""
        check_block("block", block)
        return block_mask(self.grid, self.mask, self.chunks(), block)

    def within(self, layout: Layout) -> Graph:
        """Restrict the graph further, to what a layout lets be seen."""
        grid = Grid(*self.grid.shape, layout, self.grid.device)
        return self if self.grid.same_as(grid) else self & Graph.full(grid)

    @cached_property
    def by_matrix(self) -> bool:
        """Whether matrices, a chunk at a time, are made sooner than lists."""
        if any(isinstance(piece, EveryPair) for piece in self.pieces):
            return True
        return self.list_bound() * LISTED >= math.prod(self.grid.shape)

    def chunks(self) -> Iterator[slice]:
        """All queries, in parts whose matrices are small enough to be made."""
        return chunks(self.grid.n, self.grid.batch * self.grid.heads * self.grid.m)

    def _numbers(self, queries: slice) -> Int[Tensor, " pairs"]:
        """The pairs of some queries by their numbers."""
        head, query, key = self.mask(queries).flatten(0, 1).nonzero().unbind(-1)
        return (head * self.grid.n + queries.start + query) * self.grid.m + key


@dataclass(frozen=True, eq=False)
class _Within:
    """The part of a piece that is also in a graph: what `&` is made of."""

    piece: Piece
    graph: Graph

    @property
    def group(self) -> int:
        return self.piece.group

    uniform = False

    def __str__(self) -> str:
        return f"{words([self.piece])} & ({words(self.graph.pieces)})"

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        return self.piece.contains(grid, b, h, i, j) & self.graph.contains(b, h, i, j)

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        return self.piece.bound(grid, b, h, i, rows)

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        keys = self.piece.candidates(grid, b, h, i, rows)
        if rows > 1:
            return keys
        return torch.where(self.graph.contains(b[:, None], h[:, None], i[:, None], keys), keys, -1)

    def mask(self, grid: Grid, queries: slice) -> Truth:
        return self.piece.mask(grid, queries) & self.graph.mask(queries)


def _check_graph(name: str, other: object) -> None:
    check_type(name, other, Graph, "a Graph, as finders and gold_graph return it; a matrix is Graph.of_dense(...)")
