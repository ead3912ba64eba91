"""A graph as torch's FlexAttention takes it: tiles in which it has a pair, and a bit for each pair of these.

Tiles of which every pair is in are told apart, since nothing is asked within them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor
from torch.nn.functional import pad

from .layout import Grid

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["block_mask"]

# The first two tiles of bits have none and all.
NONE, ALL = 0, 1
BITS = 8


# The pairs of some queries, as a matrix.
MaskOf = Callable[[slice], Bool[Tensor, "batch heads count m"]]


def block_mask(grid: Grid, mask_of: MaskOf, parts: Iterable[slice], size: int) -> BlockMask:
    """The mask in tiles of `size` queries and keys.

    parts: queries that are few enough to be written out at a time.

    On a GPU it waits for the device once for every few thousand queries, for how many of their tiles have some pairs.
    """
    from torch.nn.attention.flex_attention import BlockMask

    number, bits = _tiles(grid, mask_of, parts, size)

    def is_in(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        byte = bits[number[b, h, i // size, j // size], i % size, j % size // BITS]
        return (byte >> (j % size % BITS)) & 1 == 1

    lengths = grid.n, grid.m
    return BlockMask.from_kv_blocks(
        *_ordered(number > ALL), *_ordered(number == ALL), BLOCK_SIZE=size, mask_mod=is_in, seq_lengths=lengths
    )


def _tiles(
    grid: Grid, mask_of: MaskOf, parts: Iterable[slice], size: int
) -> tuple[Int[Tensor, "batch heads rows columns"], UInt8[Tensor, "entries size bytes"]]:
    """For every tile which of the tiles of bits is its own; and these, eight keys to a byte.

    Some queries at a time are written out with all keys, never all.
    """
    batch, heads, n, m = grid.shape
    wide, columns = -(-size // BITS), -(-m // size)
    powers = 1 << torch.arange(BITS, device=grid.device)
    bits = [torch.tensor([0, 255], dtype=torch.uint8, device=grid.device)[:, None, None].expand(2, size, wide)]
    numbers = [torch.zeros(batch, heads, 0, columns, dtype=torch.long, device=grid.device)]
    count = len(bits[0])
    step = max(size, max((part.stop - part.start for part in parts), default=0) // size * size)
    for start in range(0, n, step):
        mask = mask_of(slice(start, min(start + step, n)))
        rows = -(-mask.shape[2] // size)
        whole = pad(mask, (0, columns * size - m, 0, rows * size - mask.shape[2]))
        tiles = whole.view(batch, heads, rows, size, columns, size).transpose(3, 4)
        some, every = tiles.any(-1).any(-1), tiles.all(-1).all(-1)
        listed = some & ~every
        place = listed.flatten().cumsum(0).view_as(some) - 1 + count
        numbers.append(torch.where(every, ALL, torch.where(some, place, NONE)))
        bits.append((pad(tiles[listed], (0, wide * BITS - size)).unflatten(-1, (wide, BITS)) * powers).sum(-1).byte())
        count += len(bits[-1])
    return torch.cat(numbers, 2), torch.cat(bits)


def _ordered(
    tiles: Bool[Tensor, "batch heads rows columns"],
) -> tuple[Int[Tensor, "batch heads rows"], Int[Tensor, "batch heads rows columns"]]:
    """How many tiles each row has, and all columns, those that it has first."""
    return tiles.sum(-1, dtype=torch.int32), tiles.int().argsort(dim=-1, descending=True, stable=True).int()
