"""Blocks of neighbouring tokens: which there are, and graphs made of them."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Blocks
from ..errors import InputError
from ..learning.projection import Projection
from ..learning.sample import Pooling, block_vectors

__all__ = ["check_pooling", "chosen_blocks", "compared_blocks", "covered", "legal_blocks", "query_blocks"]


def query_blocks(grid: Grid, size: int) -> tuple[Int[Tensor, "batch rows"], int]:
    """The block that each row of queries stands in, and how many queries a row has.

    Blocks are counted by position, so that a decoding step falls into the block it has in the whole sequence. Where the
    first query is not the first of its block, every query is a row of its own.
    """
    offset = grid.layout.query_offset
    if not isinstance(offset, Tensor) and offset % size == 0:
        return (torch.arange(-(-grid.n // size), device=grid.device) + offset // size)[None], size
    b, i = torch.arange(grid.batch, device=grid.device)[:, None], torch.arange(grid.n, device=grid.device)
    return grid.position(b, i).expand(grid.batch, -1) // size, 1


def check_pooling(pooling: str) -> None:
    """Raise unless blocks can be pooled so."""
    if pooling not in ("mean", "concat"):
        raise InputError("pooling", repr(pooling), '"mean" or "concat"')


def compared_blocks(
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    grid: Grid,
    block: int,
    pooling: Pooling,
    projection: Projection | None,
) -> tuple[Float[Tensor, "batch heads rows size"], Float[Tensor, "batch heads columns size"]]:
    """The vectors by which blocks of queries and blocks of keys are compared, from tokens that were not mapped yet."""
    if projection is not None and pooling == "concat":
        q, k = projection.of_queries(q), projection.of_keys(k)
    lengths = grid.layout.query_lengths, grid.layout.key_lengths
    tokens = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
    queries, keys = (block_vectors(x, ends, block, pooling) for x, ends in zip(tokens, lengths, strict=True))
    if projection is None or pooling == "concat":
        return queries, keys
    # The mean of what is mapped is what the mean is mapped to, and there is less to map.
    return projection.of_queries(queries), projection.of_keys(keys)


def covered(size: int, window: int, global_tokens: int) -> tuple[int, int]:
    """Of blocks of this size: how many to each side a window covers whole (−1: not even its own), how many first ones
    global tokens cover whole.
    """
    return ((window // 2 + 1) // size - 1 if window else -1), global_tokens // size


def legal_blocks(
    grid: Grid, size: int, window: int, global_tokens: int, rows: slice | None = None
) -> Bool[Tensor, "batch 1 rows columns"]:
    """Which blocks of keys some blocks of queries may see, and do not have whole through a window and global tokens."""
    b = torch.arange(grid.batch, device=grid.device)[:, None]
    own = torch.arange(-(-grid.n // size), device=grid.device)[slice(None) if rows is None else rows]
    other = torch.arange(-(-grid.m // size), device=grid.device)
    degrees = torch.nn.functional.pad(grid.degrees(), (0, -grid.n % size)).unflatten(1, (-1, size)).amax(-1)
    legal = other * size < degrees[:, own, None]
    legal = legal & ((other + 1) * size > global_tokens)
    if window:
        # The pairs farthest apart are at two corners of a block.
        lead = (grid.position(b, own * size)[..., None] - other * size).abs() + size - 1
        legal = legal & (lead > window // 2)
    return legal[:, None]


def chosen_blocks(chosen: Int[Tensor, "batch heads rows count"], query_size: int, key_size: int, grid: Grid) -> Graph:
    """The blocks of keys chosen for each row of queries, in any order, repeated or not; −1 is none."""
    key_blocks = max(1, -(-grid.m // key_size))
    ordered = torch.where(chosen < 0, key_blocks, chosen).sort(-1).values
    keep = ordered < key_blocks
    keep[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    offsets = torch.nn.functional.pad(keep.sum(-1).flatten().cumsum(0), (1, 0))
    piece = Blocks(offsets, ordered[keep], chosen.shape[0], chosen.shape[1], key_blocks, query_size, key_size)
    return Graph(grid, (piece,))
