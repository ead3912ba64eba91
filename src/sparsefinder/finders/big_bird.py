"""BigBird: window, global tokens and random blocks. Zaheer et al., 2020, arXiv:2007.14062."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.graph import Graph
from ..core.layout import Layout
from .base import Finder, Keys, Queries
from .global_tokens import GlobalTokens
from .random_blocks import check_blocks, draw_blocks
from .window import Window

__all__ = ["BigBird"]


@dataclass(frozen=True)
class BigBird(Finder):
    """A window, the first tokens as global ones, and for each block of queries `random_blocks` blocks of keys.

    >>> BigBird(random_blocks=2, block=16, window=11)(q, k)

    The random blocks are uniform over what the queries may see and the window and global tokens do not cover already.
    """

    random_blocks: int
    block: int = 1
    window: int = 3
    globals: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_blocks(self.random_blocks, self.block)

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        fixed = Window(self.window) | GlobalTokens(self.globals)
        drawn = draw_blocks(self.random_blocks, self.block, self.seed, layout.of(q, k), self.window, self.globals)
        return fixed(q, k, layout) | drawn
