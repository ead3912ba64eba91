"""Listing a union of pieces: the keys of every row, each once and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .layout import Grid
from .pieces import Pairs, Piece

__all__ = ["among", "bounds", "firsts", "lists", "shows"]


def lists(
    grid: Grid, pieces: Sequence[Piece], group: int, budget: int
) -> Iterator[tuple[Int[Tensor, " count"], Int[Tensor, "count width"]]]:
    """What `Graph.lists` gives: row numbers, and for each row its keys and those of the queries in its group."""
    rows = firsts(grid, group)
    longest, order = bounds(grid, pieces, rows, group).sort(descending=True)
    rows, start = rows[order], 0
    while start < len(rows):
        # The longest list of the chunk sets its width.
        stop = start + max(1, budget // max(1, int(longest[start])))
        yield rows[start:stop], _listed(grid, pieces, rows[start:stop], group)
        start = stop


def among(
    grid: Grid,
    pieces: Sequence[Piece],
    b: Int[Tensor, " count"],
    h: Int[Tensor, " count"],
    i: Int[Tensor, "count group"],
    keys: Int[Tensor, "count width"],
) -> Bool[Tensor, "count #group width"]:
    """Which of the keys that `lists` gave for a group of queries each of them really has."""
    if i.shape[1] == 1:
        return (keys >= 0)[:, None]
    b, h, i, keys = b[:, None, None], h[:, None, None], i[:, :, None], keys[:, None]
    inside = keys.clamp(min=0)
    found = torch.zeros_like(inside, dtype=torch.bool)
    for piece in pieces:
        # Where all queries of the group have the same keys, asking the first of them is enough.
        found = found | piece.contains(grid, b, h, i[:, :1] if piece.uniform else i, inside)
    return found & grid.visible(b, i, keys)


def firsts(grid: Grid, group: int) -> Int[Tensor, " count"]:
    """The row of the first query of each group."""
    heads = torch.arange(grid.batch * grid.heads, device=grid.device)
    return (heads[:, None] * grid.n + torch.arange(0, grid.n, group, device=heads.device)).flatten()


def bounds(grid: Grid, pieces: Sequence[Piece], rows: Int[Tensor, " count"], group: int) -> Int[Tensor, " count"]:
    """At most how many keys each row has with its group: those that several pieces name count as often."""
    found = torch.zeros_like(rows)
    for piece in pieces:
        found = found + piece.bound(grid, *grid.unravel(rows), group)
    return found


def shows(grid: Grid, pairs: Pairs) -> bool:
    """Whether pairs stand for every head on its own, and all of them may be seen."""
    if (pairs.batch, pairs.heads) != (grid.batch, grid.heads):
        return False
    # What a query may see is a run of keys from 0 on, so that the last key of each row says it for all.
    rows = pairs.offsets.diff().nonzero().squeeze(-1)
    b, _, i = grid.unravel(rows)
    return bool((pairs.keys[pairs.offsets[rows + 1] - 1] < grid.degrees()[b, i]).all())


def _listed(grid: Grid, pieces: Sequence[Piece], rows: Int[Tensor, " count"], group: int) -> Int[Tensor, "count width"]:
    """The keys of these rows: each once, in order, then −1."""
    b, h, i = grid.unravel(rows)
    parts = [piece.candidates(grid, b, h, i, group) for piece in pieces]
    keys = torch.cat(parts, -1) if parts else rows.new_zeros(len(rows), 0)
    # The last real query of a group sees whatever the others see.
    lengths = grid.layout.query_lengths
    real = torch.full_like(b, grid.n) if lengths is None else lengths[b]
    last = torch.maximum(torch.minimum(i + group, real) - 1, i)
    keys = torch.where(grid.visible(b[:, None], last[:, None], keys), keys, grid.m).sort(-1).values
    repeated = torch.zeros_like(keys, dtype=torch.bool)
    repeated[:, 1:] = keys[:, 1:] == keys[:, :-1]
    if bool(repeated.any()):
        keys = keys.masked_fill_(repeated, grid.m).sort(-1).values
    keys = keys[:, : int((keys < grid.m).sum(-1).amax()) if keys.numel() else 0]
    return torch.where(keys < grid.m, keys, -1)
