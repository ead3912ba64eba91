"""Random attention: what a method that looks at nothing gets. The random part of BigBird alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Look, Place
from .base import Finder, Keys, Queries
from .checks import whole
from .draws import choose, seed_at
from .registry import register
from .tiles import chosen_blocks, covered, query_blocks

__all__ = ["RandomBlocks", "draw_blocks"]


@register
@dataclass(frozen=True)
class RandomBlocks(Finder):
    """Give each block of queries `count` blocks of keys, uniformly among those it may see, other ones in each head.

    >>> RandomBlocks(2, block=16)(q, k)

    On a GPU it waits for the device once, for how many blocks there are.
    """

    count: int
    block: int = 1
    seed: int = field(default=0, metadata=RUN)

    about = About(
        "random", "random blocks", "reference", words={"count": "{} random block(s)", "block": "blocks of {} token(s)"},
        look=Look("#777777", "#a8a8a8", "2"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, count=self.count)
        whole(1, block=self.block)

    def apart(self, place: Place) -> RandomBlocks:
        return replace(self, seed=seed_at(self.seed, place))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return draw_blocks(self.count, self.block, self.seed, grid)


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
