"""SMYRF: balanced clusters by hashes in which the highest products are nearest. Daras et al., 2020, arXiv:2010.05315.

Two dimensions more make all queries and keys of a head equally long, F(q) = [q; 0; √(M² − ‖q‖²)] and
G(k) = [k; √(M² − ‖k‖²); 0], with M² = max ‖q‖² + max ‖k‖²: so that ‖F(q) − G(k)‖² = 2 M² − 2 q·k.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from .about import RUN, About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .centroids import slots
from .checks import between, whole
from .collisions import tables_needed
from .quantization import ranked
from .reading import of_keys, per_head
from .registry import register
from .shares import plain

__all__ = ["Smyrf"]

MOST_ROUNDS = 64


@register
@dataclass(frozen=True, eq=False)
class Smyrf(Finder):
    """Connect queries and keys of one cluster: as many in each, cut from their order on a random line, in `rounds`.

    >>> Smyrf(clusters=16, rounds=4)(q, k)

    The paper rounds places on the line to whole numbers and orders by those; here the places themselves are the order.

    clusters: ⌈length / clusters⌉ queries in each, and keys likewise.
    rounds: a line each; a pair is in if it shares a cluster in one of them. One number, or one per head.
    """

    clusters: int
    rounds: int | Int[Tensor, " heads"] = 1
    seed: int = field(default=0, metadata=RUN)

    about = About(
        "smyrf", "SMYRF", "rival", compares="scores", paper="Daras et al., 2020, arXiv:2010.05315",
        dials=(Dial("rounds", least=1, most=MOST_ROUNDS, whole=True),), grid={"clusters": (4, 8, 16, 32)},
        words={"clusters": "{} clusters", "rounds": "{} round(s)"}, look=Look("#6d8f00", "#c5e84a", "h"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, clusters=self.clusters, rounds=self.rounds)
        between(1, MOST_ROUNDS, rounds=self.rounds)

    @property
    def query_wise(self) -> bool:
        # Tokens compete for places in clusters.
        return False

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        most = int(self.rounds.amax()) if isinstance(self.rounds, Tensor) else self.rounds
        of_queries, of_keys = self._clusters(q, k, grid, most)
        return Graph.buckets(slots(of_queries, self.rounds), of_keys, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        of_queries, of_keys = (each.short() for each in self._clusters(q, k, grid, MOST_ROUNDS))
        needed = tables_needed(of_queries[:, :, queries], of_keys, 1).double()
        return needed.masked_fill_(needed > MOST_ROUNDS, torch.inf)

    def _clusters(self, q: Queries, k: Keys, grid: Grid, rounds: int) -> tuple[Tensor, Tensor]:
        """The clusters of queries and of keys, one for each round, numbered through the rounds."""
        sides, ends = (plain(q), plain(k)), (grid.layout.query_lengths, grid.layout.key_lengths)
        squares = [each.square().sum(-1, keepdim=True) for each in sides]
        longest = sum(_longest(square, end) for square, end in zip(squares, ends, strict=True))
        more = [(longest - square).clamp(min=0).sqrt() for square in squares]
        # Always all are drawn: so that the first are the same, however many are used.
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randn(MOST_ROUNDS, q.shape[-1] + 2, generator=generator, dtype=torch.float64)
        lines = drawn[:rounds].mT.to(sides[0])
        none = [torch.zeros_like(each) for each in more]
        of_queries = torch.cat([sides[0], none[0], more[0]], -1) @ lines
        of_keys = torch.cat([sides[1], more[1], none[1]], -1) @ lines
        return ranked(of_queries, ends[0], self.clusters), ranked(of_keys, ends[1], self.clusters)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n + m) * (d + 2) * per_head(self.rounds)

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, 1) * per_head(self.rounds)


def _longest(
    squares: Float[Tensor, "batch heads length 1"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch heads 1 1"]:
    """The longest square of the real tokens; 0 where there are none."""
    if lengths is not None:
        real = torch.arange(squares.shape[2], device=squares.device) < lengths[:, None]
        squares = torch.where(real[:, None, :, None], squares, 0.0)
    return torch.nn.functional.pad(squares, (0, 0, 0, 1)).amax(2, keepdim=True)
