"""MInference's vertical-slash pattern, chosen by the last queries. Jiang et al., 2024, arXiv:2407.02490."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Dial, Look, Place
from .base import Finder, Keys, Queries, Settings
from .block_mass import within
from .centroids import ranks
from .checks import whole
from .last_queries import LastQueries, graph_of_lines, needed_of_lines
from .reading import of_keys
from .registry import register

__all__ = ["MInference"]


@register
@dataclass(frozen=True, eq=False)
class MInference(Finder):
    """Give all queries the keys and the distances that have the most weight in the rows of the last queries.

    >>> MInference(vertical=30, slash=50)(q, k)

    The softmax weights of the last queries are added up by columns and by diagonals, and of each the best are taken:
    vertical lines and slashes. A diagonal that none of the last queries has a pair of is never taken.

    Of the paper's three patterns it is the one that most heads get. Its kernel widens slashes to blocks, and its code
    takes the first columns and the nearest diagonals in any case: here that is left to what the finder is united with.
    How many lines a head has is searched for there too: a wanted recall finds the slashes, `about.grid` the columns.

    vertical, slash: how many of each, one number for all heads, or one per head.
    last: how many of the last queries choose.
    scale: what scores are multiplied by; 1 / √d if None.
    """

    vertical: int | Int[Tensor, " heads"]
    slash: int | Int[Tensor, " heads"]
    last: int = 64
    scale: float | None = field(default=None, metadata=RUN)

    about = About(
        "minference", "MInference, vertical-slash", "rival", compares="scores",
        paper="Jiang et al., 2024, arXiv:2407.02490", dials=(Dial("slash", whole=True),),
        grid={"vertical": (8, 32, 128)},
        words={"vertical": "{} column(s)", "slash": "{} diagonal(s)", "last": "chosen by the last {}"},
        look=Look("#283593", "#9fa8da", "H"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(0, vertical=self.vertical, slash=self.slash)
        whole(1, last=self.last)

    @property
    def query_wise(self) -> bool:
        # The last queries choose for all.
        return False

    def at(self, place: Place) -> MInference:
        return replace(self, scale=place.scale)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if not grid.n * grid.m:
            return Graph(grid)
        columns, diagonals = self._places(q, k, grid)
        return graph_of_lines(within(columns, self.vertical), within(diagonals, self.slash), grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        if not grid.n * grid.m:
            return q.new_zeros(*grid.shape[:2], q[:, :, queries].shape[2], grid.m).double()
        columns, diagonals = self._places(q, k, grid)
        columns = torch.where(within(columns, self.vertical), 0.0, math.inf)
        return needed_of_lines(columns.double(), diagonals, grid, queries)

    def _places(
        self, q: Queries, k: Keys, grid: Grid
    ) -> tuple[Float[Tensor, "batch heads m"], Float[Tensor, "batch heads span"]]:
        """The place of each column and of each diagonal in the order of their weight, from 1; infinite for never."""
        factor = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        last = LastQueries.of(q, k, grid, self.last, factor)
        columns, diagonals = (
            ranks(sums.argsort(dim=-1, descending=True, stable=True)).double().masked_fill(sums == -math.inf, math.inf)
            for sums in (last.columns(), last.diagonals())
        )
        return columns, diagonals

    def cost(self, n: int, m: int, d: int) -> float:
        return float(min(self.last, n)) * m * d

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, d) * min(self.last, n) / max(1, n)
