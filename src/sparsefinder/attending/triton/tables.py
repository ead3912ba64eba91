"""A graph's pieces as tables on the device, each kind of them joined to one, and its layout: what kernels ask."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.layout import Grid
from ...core.pieces import Band, Bands, Buckets, Columns, Near, Piece, Rows, Rule
from .forward import best
from .membership import Kept, Seen
from .tiles import FAR, Lists

__all__ = ["Tile", "compile_options", "kept_of", "seen_of"]

# Fewer codes than this the tensor cores do not multiply.
LEAST_CODES = 32


class Tile(NamedTuple):
    """How many queries and keys a program looks at together, and how it is compiled."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int | None  # how many a thread may have; as the assembler likes if None
    part: int  # how many numbers of a vector are multiplied at a time


def compile_options(warps: int, stages: int, registers: int | None = None) -> dict[str, Any]:
    most = {} if registers is None else {"maxnreg": registers}
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": False} | most


def seen_of(grid: Grid) -> Seen:
    layout, offset = grid.layout, grid.layout.query_offset

    def each(numbers: Tensor | None, otherwise: int) -> Tensor:
        if numbers is not None:
            return numbers.int().contiguous()
        return torch.full((grid.batch,), otherwise, dtype=torch.int32, device=grid.device)

    offsets = each(offset, 0) if isinstance(offset, Tensor) else each(None, offset)
    lengths = each(layout.key_lengths, grid.m), each(layout.query_lengths, grid.n)
    return Seen(grid.heads, grid.n, grid.m, int(layout.causal), offsets, *lengths)


def kept_of(pieces: tuple[Piece, ...], grid: Grid, lists: Lists, tile: Tile) -> Kept:
    """The pieces as tables, each kind joined to one."""
    found: dict[str, Any] = {}
    bands = [_ends(piece, grid) for piece in pieces if isinstance(piece, Band | Bands)]
    if bands:
        found |= {"bands": torch.stack(bands).contiguous(), "band_count": tl.constexpr(len(bands))}
    for name, flags in (
        ("columns", [piece.keys for piece in pieces if isinstance(piece, Columns)]),
        ("rows", [piece.queries for piece in pieces if isinstance(piece, Rows)]),
    ):
        if flags:
            whole = torch.stack([_whole(each, grid) for each in flags]).any(0)
            found[name] = whole.to(torch.int8)
    buckets = [piece for piece in pieces if isinstance(piece, Buckets)]
    if buckets:
        tables = _buckets(buckets, grid)
        found |= dict(zip(("query_buckets", "key_buckets", "query_slots", "key_slots"), tables, strict=True))
    if lists.words is not None:
        found |= {"words": lists.words, "cell_rows": tl.constexpr(lists.cell[0])}
        found["cell_columns"] = tl.constexpr(lists.cell[1])
    for piece in pieces:
        if isinstance(piece, Rule):
            found |= _rule(piece, tile)
        elif isinstance(piece, Near):
            found |= {
                "query_points": _whole(piece.queries, grid), "key_points": _whole(piece.keys, grid),
                "point_size": piece.queries.shape[-1], "radii": piece.radii.float().expand(grid.heads).contiguous(),
            }  # fmt: skip
    return Kept(**found)


def _ends(piece: Piece, grid: Grid) -> Tensor:
    """The lowest and the highest difference of positions, for each head."""
    ends = torch.empty(grid.heads, 2, dtype=torch.int32, device=grid.device)
    if isinstance(piece, Bands):
        # No reach is no pair: the lowest above the highest.
        ends[:, 0], ends[:, 1] = (
            torch.where(piece.reach < 0, 1, -piece.reach),
            torch.where(piece.reach < 0, 0, piece.reach),
        )
    elif isinstance(piece, Band):
        ends[:, 0].fill_(-FAR if piece.lower is None else max(piece.lower, -FAR))
        ends[:, 1].fill_(FAR if piece.upper is None else min(piece.upper, FAR))
    return ends


def _buckets(pieces: list[Buckets], grid: Grid) -> tuple[Tensor, Tensor, Any, Any]:
    """Several families of buckets as one: those of the next have higher numbers."""
    queries, keys, start = [], [], 0
    for piece in pieces:
        queries.append(torch.where(piece.queries < 0, -1, piece.queries + start).expand(grid.batch, grid.heads, -1, -1))
        keys.append(torch.where(piece.keys < 0, -2, piece.keys + start).expand(grid.batch, grid.heads, -1, -1))
        if piece is not pieces[-1]:
            start += int(torch.maximum(piece.queries.amax(), piece.keys.amax())) + 1
    tables = torch.cat(queries, -1).int().contiguous(), torch.cat(keys, -1).int().contiguous()
    return *tables, *(tl.constexpr(table.shape[-1]) for table in tables)


def _rule(piece: Rule, tile: Tile) -> dict[str, Any]:
    """The codes of a rule, and what products have to reach: looked for on the device, tile by tile."""
    grid, rank = piece.grid, max(LEAST_CODES, triton.next_power_of_2(piece.queries.shape[-1]))
    queries, keys = (
        torch.nn.functional.pad(_whole(each, grid), (0, rank - each.shape[-1])).to(torch.int8).contiguous()
        for each in (piece.queries, piece.keys)
    )
    found: dict[str, Any] = {"query_codes": queries, "key_codes": keys, "rank": tl.constexpr(rank)}
    if piece.among is not None:
        names = ("among_queries", "among_keys", "among_query_slots", "among_key_slots")
        found |= dict(zip(names, _buckets([piece.among], grid), strict=True))
    limits = _whole(piece.limits.int(), grid)
    if not piece.relative:
        return found | {"reach": limits}
    reach = torch.empty_like(limits)
    programs = math.ceil(grid.n / tile.rows), grid.batch * grid.heads
    best[programs](
        seen_of(grid), Kept(**found), limits, reach, rows=tile.rows, columns=tile.columns,
        **compile_options(tile.warps, tile.stages),
    )  # fmt: skip
    return found | {"reach": reach}


def _whole(table: Tensor, grid: Grid) -> Tensor:
    """A table of every sequence and head."""
    return table.expand(grid.batch, grid.heads, *table.shape[2:]).contiguous()
