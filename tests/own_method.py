"""A method from outside, in one file: each query sees the keys at the offsets that got weight most often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

from sparsefinder import Graph
from sparsefinder.core.layout import Grid
from sparsefinder.finders import FIT, LEARNED, About, Dial, Fitting, Learned, Look
from sparsefinder.learning.sample import Sample

REACH = 64


@dataclass(frozen=True, eq=False)
class Offsets(Learned):
    """Connect each query to the keys at the `count` most frequent offsets from it.

    count: one number for all heads, or one per head.
    """

    reach: int = field(default=REACH, metadata=FIT)
    count: int | Int[Tensor, " heads"] = 1
    places: Int[Tensor, "heads offsets"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "offsets", "frequent offsets", "rival", paper="nobody, 2026", dials=(Dial("count", whole=True),),
        look=Look("#123456", "#abcdef", "8"),
    )  # fmt: skip

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Offsets:
        """The offsets of gold pairs of each head, the most frequent first."""
        counts = 0
        for sample in samples:
            _, h, i, j = sample.gold.dense().nonzero().unbind(-1)
            offset = (j - i).clamp(-self.reach, self.reach) + self.reach
            size = 2 * self.reach + 1
            counts = counts + torch.bincount(h * size + offset, minlength=sample.q.shape[1] * size).view(-1, size)
        assert isinstance(counts, Tensor)
        return replace(self, places=counts.argsort(dim=-1, descending=True, stable=True) - self.reach)

    def find(self, q: Tensor, k: Tensor, grid: Grid) -> Graph:
        return Graph.of_dense(self._ranks(grid) <= torch.as_tensor(self.count).reshape(-1, 1, 1), grid)

    def needed(self, q: Tensor, k: Tensor, grid: Grid, queries: slice) -> Tensor:
        return self._ranks(grid)[:, :, queries].double()

    def _ranks(self, grid: Grid) -> Tensor:
        assert self.places is not None
        offset = torch.arange(grid.m) - grid.positions()[..., None]
        order = torch.full((len(self.places), 2 * self.reach + 2), 2 * self.reach + 2)
        order.scatter_(1, self.places + self.reach, torch.arange(1, 2 * self.reach + 2).expand_as(self.places))
        inside = torch.where(offset.abs() <= self.reach, offset + self.reach, 2 * self.reach + 1)
        return order[:, inside].transpose(0, 1)
