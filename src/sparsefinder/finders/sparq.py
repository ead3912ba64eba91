"""SparQ attention: scores in the few dimensions in which a query is largest. Ribar et al., 2023, arXiv:2312.04985."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from .about import About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import between, whole
from .reading import of_keys
from .registry import register
from .shares import Scores, best_share, least_shares, plain

__all__ = ["SparQ"]


@register
@dataclass(frozen=True, eq=False)
class SparQ(Finder):
    """Connect each query to the keys that score best in the r dimensions in which the query itself is largest.

    >>> SparQ(r=16, share=0.1)(q, k)

    The paper takes k keys, the last ones always among them, and adds the mean of all values for the keys that it leaves
    out. Here it is a share of what a query may see, so that one setting is for every length; unite it with a window for
    the last keys. Entmax gives nothing to keys that are left out, so that nothing has to stand for them.

    r: all there are where heads have fewer.
    share: rounded up to whole keys, with what scores as high as the last of them. One, or one per head.
    """

    r: int
    share: int | float | Float[Tensor, " heads"]

    about = About(
        "sparq", "SparQ", "rival", compares="scores", paper="Ribar et al., 2023, arXiv:2312.04985",
        dials=(Dial("share", most=1, every_pair=True),), grid={"r": (8,)},
        words={"r": "the largest {} dimension(s) of a query", "share": "keeps the best {%} of keys"},
        look=Look("#d6007f", "#ff7ac6", "o"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, r=self.r)
        between(0, 1, share=self.share)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return best_share(self._scores(q, k), self.share, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        return least_shares(self._scores(q, k)(queries), grid, queries)

    def _scores(self, q: Queries, k: Keys) -> Scores:
        keys = plain(k).mT

        def scores(queries: slice) -> Tensor:
            some = plain(q[:, :, queries])
            largest = some.abs().topk(min(self.r, some.shape[-1]), -1).indices
            # Zeros in the other dimensions: on tensors that is faster than to gather those of each query from all keys.
            return torch.zeros_like(some).scatter_(-1, largest, some.gather(-1, largest)) @ keys

        return scores

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * min(self.r, d)

    def reads(self, n: int, m: int, d: int) -> float:
        # Keys are kept dimension by dimension too, so that the others are not read.
        return of_keys(m, min(self.r, d))
