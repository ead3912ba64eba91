"""Random attention: what a method that looks at nothing gets. The random part of BigBird alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core.graph import Graph
from ..core.layout import Grid, Layout
from ..errors import InputError
from .base import Finder, Keys, Queries
from .draws import choose
from .tiles import chosen_blocks, covered, query_blocks

__all__ = ["RandomBlocks", "draw_blocks"]


@dataclass(frozen=True)
class RandomBlocks(Finder):
    """Give each block of queries `count` blocks of keys, uniformly among those it may see, other ones in each head.

    >>> RandomBlocks(2, block=16)(q, k)
    """

    count: int
    block: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_blocks(self.count, self.block)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        return draw_blocks(self.count, self.block, self.seed, layout.of(q, k))


def draw_blocks(count: int, block: int, seed: int, grid: Grid, window: int = 0, global_tokens: int = 0) -> Graph:
    """Random blocks, of those that a window and global tokens do not cover already."""
    own, query_size = query_blocks(grid, block)
    own = own[:, None]
    lengths = grid.layout.key_lengths
    end = torch.full_like(own, grid.m) if lengths is None else lengths[:, None, None]
    end = -(-end // block)
    if grid.layout.causal:
        end = torch.minimum(end, own + 1)
    # Legal are first … left − 1 and right … end − 1; drawn is a number in the two ranges laid end to end.
    side, first = covered(block, window, global_tokens)
    right = (own + side + 1).clamp(min=first)
    left = torch.minimum(torch.minimum(own - side, right).clamp(min=first), end)
    legal = (left - first).clamp(min=0) + (end - right).clamp(min=0)
    head = torch.arange(grid.heads, device=grid.device)[:, None]
    drawn = choose(count, legal.expand(-1, grid.heads, -1), seed, head, own)
    left, right = left[..., None], right[..., None]
    chosen = torch.where(drawn + first < left, drawn + first, drawn + first - left.clamp(min=first) + right)
    return chosen_blocks(torch.where(drawn < 0, -1, chosen), query_size, block, grid)


def check_blocks(count: int, block: int) -> None:
    if count < 0:
        raise InputError("count of blocks", count, "a number from 0 upwards")
    if block < 1:
        raise InputError("block", block, "a number of positions from 1 upwards")
