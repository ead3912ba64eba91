"""Blocks of pairs as torch's FlexAttention takes them: tables of those to look into and of those to take whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .pieces import Pairs

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["block_mask"]


def block_mask(
    blocks: Pairs, full: Bool[Tensor, " entries"], size: int, contains: Callable[..., Tensor], lengths: tuple[int, int]
) -> BlockMask:
    """The mask of these blocks, by number; `contains` is asked about pairs in those that are not full."""
    from torch.nn.attention.flex_attention import BlockMask

    partial_counts, partial = _tables(blocks, ~full)
    full_counts, whole = _tables(blocks, full)
    return BlockMask.from_kv_blocks(
        partial_counts, partial, full_counts, whole, size, mask_mod=contains, seq_lengths=lengths
    )


def _tables(
    blocks: Pairs, chosen: Bool[Tensor, " entries"]
) -> tuple[Int[Tensor, "batch heads n"], Int[Tensor, "batch heads n m"]]:
    """Some of the blocks: how many each row has, and a table as wide as there are."""
    shape = (blocks.batch, blocks.heads, blocks.n)
    counts = torch.bincount(blocks.rows[chosen], minlength=len(blocks.offsets) - 1)
    table = torch.zeros(len(counts), blocks.m, dtype=torch.int32, device=counts.device)
    table[torch.arange(blocks.m, device=counts.device) < counts[:, None]] = blocks.keys[chosen].to(torch.int32)
    return counts.view(shape).to(torch.int32), table.view(*shape, blocks.m)
