"""The tiles of queries and keys in which a graph may have a pair, made of its pieces on the device they are on.

For each tile of queries the tiles of keys, one after the other (CSR), the same for all heads where no piece differs
between them. Queries and keys that fall into buckets are taken in the order of buckets if that leaves fewer tiles. What
lists say in blocks or pairs is a bit for every cell of a listed tile, a cell being as large as blocks and tiles allow.
Nothing here is n × m: a tile has thousands of pairs, and is one entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...core.graph import Graph
from ...core.layout import Grid
from ...core.pieces import Band, Bands, Blocks, Buckets, Columns, Near, Pairs, Piece, Rows, Rule, Sketched

__all__ = ["Lists", "known", "listed"]

# No difference of two positions is as large.
FAR = 1 << 30
BITS = 32

Order = Int[Tensor, "batch heads _"]
Mask = Bool[Tensor, "#batch #heads query_tiles key_tiles"]


@dataclass(frozen=True, eq=False)
class Lists:
    """The tiles of a graph.

    numbers: of every listed tile, ((sequence · heads + head) · query_tiles + query tile) · key_tiles + key tile.
    words: for every listed tile its cells, in rows of whole words, and one more; None without blocks and pairs.
    query_order, key_order: of every sequence and head; None as they come.
    """

    batch: int
    heads: int
    query_tiles: int
    key_tiles: int
    numbers: Int[Tensor, " entries"]
    offsets: Int[Tensor, " ends"]
    words: Int[Tensor, "more down across"] | None
    cell: tuple[int, int]
    query_order: Order | None = None
    key_order: Order | None = None

    @property
    def entries(self) -> int:
        return len(self.numbers)

    @cached_property
    def tiles(self) -> Int[Tensor, " entries"]:
        """The key tile of each entry."""
        return (self.numbers % self.key_tiles).int()

    @cached_property
    def back(self) -> tuple[Int[Tensor, " ends"], Int[Tensor, " entries"], Int[Tensor, " entries"]]:
        """The same by key tiles: where the entries of each begin, their query tiles, and their numbers above."""
        row = self.numbers // self.key_tiles
        tile, head = row % self.query_tiles, row // self.query_tiles
        column = head * self.key_tiles + self.numbers % self.key_tiles
        order = (column * self.query_tiles + tile).argsort()
        ends = torch.arange(self.batch * self.heads * self.key_tiles + 1, device=order.device)
        return torch.searchsorted(column[order], ends).int(), tile[order].int(), order.int()


class _Cells(NamedTuple):
    """The cells that a list of blocks or pairs has: sequence, head, which of the queries' and which of the keys'."""

    b: Tensor
    h: Tensor
    row: Tensor
    column: Tensor
    batch: int
    heads: int


def known(graph: Graph) -> tuple[Piece, ...]:
    """The pieces that the kernels ask. A graph with others, or with two rules, is listed pair by pair."""
    pieces = tuple(piece.rule if isinstance(piece, Sketched) else piece for piece in graph.pieces)
    rules = sum(isinstance(piece, Rule) for piece in pieces)
    near = [piece for piece in pieces if isinstance(piece, Near)]
    kinds = Band | Bands | Columns | Rows | Buckets | Blocks | Pairs | Rule | Near
    simple = all(isinstance(piece, kinds) for piece in pieces) and all(
        one.queries.dtype == torch.float32 for one in near
    )
    return pieces if simple and rules <= 1 and len(near) <= 1 else (graph.pairs(),)


def listed(grid: Grid, pieces: Sequence[Piece], rows: int, columns: int) -> Lists:
    """The tiles of `rows` queries and `columns` keys in which one of the pieces may have a pair that can be seen.

    It waits for the device once, for how many tiles there are; with buckets twice more, for how many of these there are
    and for which order leaves fewer tiles; and for each list of blocks or pairs for how many entries and cells it has.
    """
    orders: list[tuple[Order | None, Order | None]] = [(None, None)]
    lists = [piece for piece in pieces if isinstance(piece, Blocks | Pairs)]
    buckets = [_buckets(piece) for piece in pieces]
    first = next((one for one in buckets if one is not None), None)
    if first is not None and not lists:
        orders.append((_order(first.queries, grid), _order(first.keys, grid)))
    cell = tuple(math.gcd(size, *(_sizes(one)[axis] for one in lists)) for axis, size in enumerate((rows, columns)))
    cells = [_cells(one, cell, grid) for one in lists]
    count = _count([one for one in buckets if one is not None])
    masks = [_mask(grid, pieces, cells, cell, rows, columns, count, *order) for order in orders]
    best = 0 if len(masks) == 1 else int(torch.stack([_weight(mask, grid) for mask in masks]).argmin())
    mask = masks[best]
    counts = mask.sum(-1).flatten()
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int()
    numbers = mask.flatten().nonzero()[:, 0]
    words = _words(mask, numbers, cells, cell, rows, columns) if lists else None
    batch, heads, query_tiles, key_tiles = mask.shape
    shape = (cell[0], cell[1])
    return Lists(batch, heads, query_tiles, key_tiles, numbers, offsets, words, shape, *orders[best])


def _buckets(piece: Piece) -> Buckets | None:
    return piece if isinstance(piece, Buckets) else piece.among if isinstance(piece, Rule) else None


def _order(table: Int[Tensor, "#batch #heads length slots"], grid: Grid) -> Order:
    """Tokens by their first bucket, those without one last."""
    first = table[..., 0]
    order = torch.where(first < 0, torch.iinfo(first.dtype).max, first).argsort(dim=-1, stable=True)
    return order.expand(grid.batch, grid.heads, -1).int().contiguous()


def _weight(mask: Mask, grid: Grid) -> Tensor:
    """How many tiles there are in all heads."""
    return mask.sum() * (grid.batch // mask.shape[0] * (grid.heads // mask.shape[1]))


def _mask(
    grid: Grid,
    pieces: Sequence[Piece],
    cells: list[_Cells],
    cell: tuple[int, ...],
    rows: int,
    columns: int,
    count: int,
    query_order: Order | None,
    key_order: Order | None,
) -> Mask:
    """The tiles with a pair, for queries and keys in these orders, and at most `count` buckets."""
    i = _ends(query_order, grid.n, rows, grid.device)
    j = _ends(key_order, grid.m, columns, grid.device)
    offset = grid.layout.query_offset
    shift = offset[:, None, None, None] if isinstance(offset, Tensor) else offset
    first, last = (each[..., None] + shift for each in i)
    left, right = (each[..., None, :] for each in j)
    mask = torch.zeros(1, 1, i[0].shape[-1], j[0].shape[-1], dtype=torch.bool, device=grid.device)
    for piece in pieces:
        found: Tensor
        match piece:
            case Band():
                lower, upper = (
                    -FAR if piece.lower is None else piece.lower,
                    FAR if piece.upper is None else piece.upper,
                )
                found = (right - first >= lower) & (left - last <= upper)
            case Bands():
                reach = piece.reach[:, None, None]
                found = (right - first >= -reach) & (left - last <= reach) & (reach >= 0)
            case Columns():
                found = _tiled(piece.keys, key_order, columns).any(-1)[..., None, :]
            case Rows():
                found = _tiled(piece.queries, query_order, rows).any(-1)[..., None]
            case Rule() | Near() | Buckets():
                among = _buckets(piece)
                found = torch.ones((), dtype=torch.bool, device=grid.device)
                if among is not None:
                    queries = _sets(among.queries, query_order, rows, count)
                    found = queries @ _sets(among.keys, key_order, columns, count).mT > 0
            case _:
                continue
        mask = mask | found
    for one in cells:
        mask = mask | _touched(one, cell, rows, columns, mask.shape[-2:])
    return mask & _seen(grid, i, j)


def _seen(grid: Grid, i: tuple[Tensor, Tensor], j: tuple[Tensor, Tensor]) -> Bool[Tensor, "..."]:
    """The tiles in which the layout lets a pair be seen."""
    layout = grid.layout
    seen = torch.ones((), dtype=torch.bool, device=grid.device)
    if layout.key_lengths is not None:
        seen = seen & (j[0][..., None, :] < layout.key_lengths[:, None, None, None])
    if layout.query_lengths is not None:
        seen = seen & (i[0][..., None] < layout.query_lengths[:, None, None, None])
    if layout.causal:
        offset = layout.query_offset
        shift = offset[:, None, None, None] if isinstance(offset, Tensor) else offset
        seen = seen & (j[0][..., None, :] <= i[1][..., None] + shift)
    return seen


def _ends(order: Order | None, length: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first and the last token of every tile."""
    if order is None:
        first = torch.arange(0, length, size, device=device)[None, None]
        return first, (first + size).clamp(max=length) - 1
    padding = (0, -length % size)
    tiled = (torch.nn.functional.pad(order, padding, value=value).unflatten(-1, (-1, size)) for value in (FAR, -1))
    return next(tiled).amin(-1), next(tiled).amax(-1)


def _tiled(table: Tensor, order: Order | None, size: int) -> Tensor:
    """A table of truths by tiles."""
    if order is not None:
        table = table.expand(*order.shape[:2], -1).gather(-1, order.long())
    return torch.nn.functional.pad(table, (0, -table.shape[-1] % size)).unflatten(-1, (-1, size))


def _count(pieces: Sequence[Buckets]) -> int:
    """How many buckets there are at the most."""
    highest = [side.amax() for piece in pieces for side in (piece.queries, piece.keys)]
    return int(torch.stack(highest).amax()) + 1 if highest else 0


def _sets(table: Int[Tensor, "#batch #heads length slots"], order: Order | None, size: int, count: int) -> Tensor:
    """Which buckets each tile has, as zeros and ones."""
    if order is not None:
        table = table.expand(*order.shape[:2], -1, -1).gather(
            2, order.long()[..., None].expand(-1, -1, -1, table.shape[-1])
        )
    table = torch.where(table < 0, count, table)
    tiles = (
        torch.nn.functional.pad(table, (0, 0, 0, -table.shape[2] % size), value=count)
        .unflatten(2, (-1, size))
        .flatten(3)
    )
    sets = torch.zeros(*tiles.shape[:3], count + 1, device=table.device)
    return sets.scatter_(-1, tiles, 1.0)[..., :count]


def _sizes(piece: Piece) -> tuple[int, int]:
    return (piece.query_size, piece.key_size) if isinstance(piece, Blocks) else (1, 1)


def _cells(piece: Piece, cell: tuple[int, ...], grid: Grid) -> _Cells:
    pairs = piece.pairs if isinstance(piece, Blocks) else piece
    assert isinstance(pairs, Pairs)
    parts = [size // each for size, each in zip(_sizes(piece), cell, strict=True)]
    head, block = pairs.rows // max(pairs.n, 1), pairs.rows % max(pairs.n, 1)
    down, across = (torch.arange(part, device=pairs.keys.device) for part in parts)
    row = (block[:, None, None] * parts[0] + down[:, None]).expand(-1, *parts)
    column = (pairs.keys[:, None, None] * parts[1] + across).expand(-1, *parts)
    head = head[:, None, None].expand(-1, *parts)
    kept: slice | Tensor = slice(None)
    if math.prod(parts) > 1:
        # The last blocks may end behind the last token.
        kept = ((row * cell[0] < grid.n) & (column * cell[1] < grid.m)).flatten().nonzero()[:, 0]
    head, row, column = (each.flatten()[kept] for each in (head, row, column))
    return _Cells(head // pairs.heads, head % pairs.heads, row, column, pairs.batch, pairs.heads)


def _touched(cells: _Cells, cell: tuple[int, ...], rows: int, columns: int, size: Sequence[int]) -> Mask:
    """The tiles in which there is a cell."""
    mask = torch.zeros(cells.batch, cells.heads, *size, dtype=torch.bool, device=cells.b.device)
    mask[cells.b, cells.h, cells.row // (rows // cell[0]), cells.column // (columns // cell[1])] = True
    return mask


def _words(
    mask: Mask, numbers: Tensor, cells: list[_Cells], cell: tuple[int, ...], rows: int, columns: int
) -> Int[Tensor, "more down across"]:
    """The bits of every listed tile: a row of cells after the other, each in whole words."""
    batch, heads, query_tiles, key_tiles = mask.shape
    down, wide = rows // cell[0], columns // cell[1]
    across = -(-wide // BITS)
    found = []
    for b, h, row, column, own_batch, own_heads in cells:
        # What stands for all sequences or heads is written for each that the list of tiles tells apart.
        more_b = torch.arange(batch if own_batch < batch else 1, device=b.device)[:, None, None]
        more_h = torch.arange(heads if own_heads < heads else 1, device=b.device)[:, None]
        tile = (((b + more_b) * heads + h + more_h) * query_tiles + row // down) * key_tiles + column // wide
        entry = torch.searchsorted(numbers, tile).clamp(max=max(len(numbers) - 1, 0))
        # What may not be seen is in no tile that is listed: it goes behind the last.
        entry = torch.where(numbers[entry] == tile, entry, len(numbers)) if len(numbers) else torch.zeros_like(tile)
        bit = column % wide
        found.append((((entry * down + row % down) * across + bit // BITS) * BITS + bit % BITS).flatten())
    bits = found[0] if len(found) == 1 else torch.unique(torch.cat(found))
    words = torch.zeros((len(numbers) + 1) * down * across, dtype=torch.int32, device=mask.device)
    one = torch.ones((), dtype=torch.int32, device=mask.device)
    # Every bit of a listed tile comes once, so that their sum is all of them.
    return words.index_add_(0, bits // BITS, one << (bits % BITS).int()).view(-1, down, across)
