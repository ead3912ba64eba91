"""MagicPIG: keys that random hyperplanes leave on the query's side, often enough. Chen et al., 2024, arXiv:2410.16179.

Angles between queries and keys as they are say little: all keys lie on one side of most hyperplanes. So the mean of
keys is taken off first, which changes no weight: it takes the same off all scores of a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.moments import Moments
from ..learning.projection import Projection
from ..learning.sample import Sample
from .about import LEARNED, RUN, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import between, whole
from .chosen import pairs_of
from .collisions import tables_needed
from .reading import per_head
from .registry import register
from .shares import plain

__all__ = ["MagicPig"]

# Of tables, and of bits to a hash, there are at most so many.
MOST_TABLES, MOST_BITS = 128, 15


@register
@dataclass(frozen=True, eq=False)
class MagicPig(Learned):
    """Connect queries and keys with the same hash in at least two of the tables: the sides of random hyperplanes.

    >>> MagicPig(bits=8, tables=64).fit([Sample(q, k)])(q, k)

    The paper takes the mean off that the keys of a prompt have, and weighs keys by how likely they were to be chosen.
    Here the mean is that of training keys, so that no hash changes as keys come, and weights are those of entmax.

    bits: hyperplanes of a table.
    tables: more of them find all that fewer do. One number, or one per head.
    collisions: in how many tables a key has to have the query's hash.
    projection: hash projected queries and keys.
    means: of the keys of each head.
    """

    bits: int
    tables: int | Int[Tensor, " heads"]
    collisions: int = 2
    seed: int = field(default=0, metadata=RUN)
    projection: Projection | None = field(default=None, metadata=LEARNED)
    means: Float[Tensor, "heads r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "magicpig", "MagicPIG", "rival", compares="closeness", paper="Chen et al., 2024, arXiv:2410.16179",
        dials=(Dial("tables", least=1, most=MOST_TABLES, whole=True),), grid={"bits": (4, 6, 8)},
        words={"bits": "{} bits", "tables": "{} table(s)", "collisions": "the same hash {} time(s)"},
        look=Look("#e5304f", "#ff8f9f", "p"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, bits=self.bits, tables=self.tables, collisions=self.collisions)
        between(1, MOST_BITS, bits=self.bits)
        between(1, MOST_TABLES, tables=self.tables, collisions=self.collisions)

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> MagicPig:
        """The mean of training keys."""
        return replace(self, means=Moments.of(self.mapped(samples)).key_mean.float())

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        tables = torch.as_tensor(self.tables, device=grid.device).expand(grid.heads)[:, None, None]
        of_queries, of_keys = self._hashes(q, k, int(tables.amax()))
        return pairs_of(
            lambda queries: tables_needed(of_queries[:, :, queries], of_keys, self.collisions) <= tables, grid
        )

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        needed = tables_needed(*self._hashes(q[:, :, queries], k, MOST_TABLES), self.collisions).double()
        return needed.masked_fill_(needed > MOST_TABLES, torch.inf)

    def _hashes(self, q: Queries, k: Keys, tables: int) -> tuple[Tensor, Tensor]:
        """The hashes of queries, and of keys without their mean."""
        assert self.means is not None
        keys = plain(k)
        # Always all are drawn: so that the first are the same, however many are used.
        drawn = torch.randn(
            MOST_TABLES, q.shape[-1], self.bits, generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64
        )
        return _hashed(plain(q), drawn[:tables]), _hashed(keys - self.means[:, None].to(keys), drawn[:tables])

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        tables = per_head(self.tables)
        return float(n + m) * r * (tables * self.bits + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        return float(m) * per_head(self.tables) * self.bits / 8


def _hashed(
    tokens: Float[Tensor, "batch heads length d"], planes: Float[Tensor, "tables d bits"]
) -> Int[Tensor, "batch heads length tables"]:
    """The sides that tokens lie on, as the digits of a number."""
    digits = 2 ** torch.arange(planes.shape[-1], device=tokens.device, dtype=torch.int16)
    parts = [((tokens @ each > 0) * digits).sum(-1, dtype=torch.int16) for each in planes.to(tokens)]
    return torch.stack(parts, -1)
