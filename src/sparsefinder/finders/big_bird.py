"""BigBird: window, global tokens and random blocks. Zaheer et al., 2020, arXiv:2007.14062."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Look, Place
from .base import Finder, Keys, Queries
from .checks import whole
from .draws import seed_at
from .fixed import fixed
from .random_blocks import draw_blocks
from .registry import register

__all__ = ["BigBird"]


@register
@dataclass(frozen=True)
class BigBird(Finder):
    """A window, the first tokens as global ones, and for each block of queries `random_blocks` blocks of keys.

    >>> BigBird(random_blocks=2, block=16, window=11)(q, k)

    The random blocks come besides: they are uniform over those that the queries may see and that the window and the
    global tokens do not cover whole already.
    """

    random_blocks: int
    block: int = 1
    window: int = 3
    globals: int = 1
    seed: int = field(default=0, metadata=RUN)

    about = About(
        "bigbird", "BigBird", "rival", paper="Zaheer et al., 2020, arXiv:2007.14062", besides=True,
        grid={"random_blocks": (2, 4, 8, 16, 32), "window": (1, 11, 25, 75)},
        words={"random_blocks": "{} random block(s)", "block": "blocks of {} token(s)"},
        look=Look("#8c4a2f", "#d09274", "P"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, random_blocks=self.random_blocks, window=self.window, globals=self.globals)
        whole(1, block=self.block)

    def apart(self, place: Place) -> BigBird:
        return replace(self, seed=seed_at(self.seed, place))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        drawn = draw_blocks(self.random_blocks, self.block, self.seed, grid, self.window, self.globals)
        return fixed(self.window, self.globals).on(q, k, grid) | drawn
