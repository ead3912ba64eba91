"""Softmax over graphs on a GPU, by torch's FlexAttention: tiles in which the graph has a pair, and a bit for each pair.

Thin: what it cannot take is refused here, and a graph becomes a BlockMask. Tiles of which every pair is in are told
apart, since nothing is asked within them. On a CPU it runs only for tests (TRITON_INTERPRET=1), uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.chunks import chunks
from ..core.graph import Graph
from . import portable
from .call import Call
from .gpu import interpreted

__all__ = ["refusal", "run", "weights"]

# Queries and keys of a tile: what FlexAttention is tuned for.
SIZE = 128
# The first two tiles of bits have none and all.
NONE, ALL = 0, 1


def refusal(call: Call) -> str | None:
    if call.q.device.type != "cuda" and not interpreted():
        return f"runs on a GPU only, not on {call.q.device}"
    if isinstance(call.alpha, Tensor) or call.alpha != 1:
        return "is for softmax, alpha = 1, alone"
    if call.graph is None:
        return "is for graphs: softmax over all pairs is torch's own attention"
    if call.q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"computes in float32, not in {call.q.dtype}"
    if call.bias is not None:
        return "takes no bias"
    if call.dropout:
        return "has no dropout"
    if 0 in call.grid.shape:
        return "takes no empty tensors"
    return None


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    """It waits for the device once for every few thousand queries: for how many of their tiles have some pairs."""
    mask, asking = _block_mask(call.pairs)
    out: Tensor = _attend(call.q.is_cuda)(
        call.q, call.k, call.v, block_mask=mask, scale=call.scale, enable_gqa=call.groups > 1
    )
    return torch.where(asking[..., None], out, 0.0)


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    """The weights, for looking at: by torch operations, chunk by chunk."""
    return portable.weights(call)


@cache
def _attend(compiled: bool) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    plain: Callable[..., Any] = flex_attention
    return torch.compile(plain, dynamic=False) if compiled else plain


def _block_mask(graph: Graph) -> tuple[Any, Bool[Tensor, "batch heads n"]]:
    """The graph in FlexAttention's terms, and which queries have a key at all."""
    from torch.nn.attention.flex_attention import BlockMask

    grid = graph.grid
    number, bits, asking = _tiles(graph)

    def is_in(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        byte = bits[number[b, h, i // SIZE, j // SIZE], i % SIZE, j % SIZE // 8]
        return (byte >> (j % 8)) & 1 == 1

    some, every = _ordered(number > ALL), _ordered(number == ALL)
    lengths = grid.n, grid.m
    return BlockMask.from_kv_blocks(*some, *every, BLOCK_SIZE=SIZE, mask_mod=is_in, seq_lengths=lengths), asking


def _tiles(graph: Graph) -> tuple[Int[Tensor, "batch heads rows columns"], Tensor, Bool[Tensor, "batch heads n"]]:
    """For every tile which of the tiles of bits is its own; these, eight keys to a byte; and which queries have a key.

    Some queries at a time are written out with all keys, never all.
    """
    grid = graph.grid
    batch, heads, n, m = grid.shape
    powers = 1 << torch.arange(8, device=grid.device)
    bits = [torch.tensor([0, 255], dtype=torch.uint8, device=grid.device)[:, None, None].expand(2, SIZE, SIZE // 8)]
    numbers, asking, count = [], [], 2
    step = max(SIZE, next(iter(chunks(n, batch * heads * m))).stop // SIZE * SIZE)
    for start in range(0, n, step):
        mask = graph.mask(slice(start, min(start + step, n)))
        asking.append(mask.any(-1))
        rows, columns = -(-mask.shape[2] // SIZE), -(-m // SIZE)
        whole = pad(mask, (0, columns * SIZE - m, 0, rows * SIZE - mask.shape[2]))
        tiles = whole.view(batch, heads, rows, SIZE, columns, SIZE).transpose(3, 4)
        some, every = tiles.any((-1, -2)), tiles.all((-1, -2))
        listed = tiles[some & ~every]
        place = (some & ~every).flatten().cumsum(0).view_as(some) - 1 + count
        numbers.append(torch.where(every, ALL, torch.where(some, place, NONE)))
        bits.append((listed.unflatten(-1, (SIZE // 8, 8)) * powers).sum(-1).to(torch.uint8))
        count += len(listed)
    return torch.cat(numbers, 2), torch.cat(bits), torch.cat(asking, 2)


def _ordered(tiles: Bool[Tensor, "batch heads rows columns"]) -> tuple[Tensor, Tensor]:
    """How many tiles each row has, and all columns, those that it has first."""
    return tiles.sum(-1, dtype=torch.int32), tiles.int().argsort(dim=-1, descending=True, stable=True).int()
