"""Locality-sensitive hashing by random rotations. Reformer: Kitaev et al., 2020, arXiv:2001.04451."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from ..learning.projection import Projection
from .about import LEARNED, RUN, About, Look, Place
from .base import Finder, Keys, Queries
from .checks import whole
from .reading import of_keys
from .registry import register

__all__ = ["Reformer"]


@register
@dataclass(frozen=True, eq=False)
class Reformer(Finder):
    """Connect queries and keys with the same hash in one of `rounds`: the nearest of `buckets` directions ±R.

    >>> Reformer(buckets=8, rounds=2)(q, k)

    shared: hash each token once, by its query and key laid end to end, as Reformer's queries are its keys. Only where
    they belong to the same tokens, and not while decoding, when the queries of the past are gone. Else hash them apart.
    projection: hash projected queries and keys.
    """

    buckets: int
    rounds: int = 1
    shared: bool = True
    seed: int = field(default=0, metadata=RUN)
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "reformer", "Reformer", "rival", compares="closeness", paper="Kitaev et al., 2020, arXiv:2001.04451",
        grid={"buckets": (2, 4, 8, 16, 32), "rounds": (1, 2, 4)},
        words={"buckets": "{} buckets", "rounds": "{} round(s)"}, look=Look("#7a6f00", "#cfc24a", ">"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.buckets < 2 or self.buckets % 2:
            raise InputError("buckets", self.buckets, "an even number: a direction and its opposite are two")
        whole(1, rounds=self.rounds)

    @property
    def query_wise(self) -> bool:
        return not self.shared

    def at(self, place: Place) -> Reformer:
        # Queries and keys of different tokens cannot be hashed together.
        return replace(self, shared=self.shared and place.kind != "cross")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        if self.shared and grid.n != grid.m:
            got = f"True with {grid.n} queries and {grid.m} keys"
            raise InputError("shared", got, "False unless each token has a query and a key")
        if self.shared:
            both = self._hashes(torch.cat([q, k], -1))
            return Graph.buckets(both, both, grid)
        return Graph.buckets(self._hashes(q), self._hashes(k), grid)

    def _hashes(self, tokens: Float[Tensor, "batch heads length d"]) -> Int[Tensor, "batch heads length rounds"]:
        generator = torch.Generator().manual_seed(self.seed)
        rotations = torch.randn(self.rounds, tokens.shape[-1], self.buckets // 2, generator=generator)
        rounds = []
        for number, rotation in enumerate(rotations.to(tokens)):
            turned = tokens @ rotation
            rounds.append(torch.cat([turned, -turned], -1).argmax(-1) + number * self.buckets)
        return torch.stack(rounds, -1)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return float(n + m) * r * (self.rounds * self.buckets / 2 + (0 if self.projection is None else d))

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, self.rounds)
