"""Quest: each query takes the pages of keys that could score highest with it. Tang et al., 2024, arXiv:2406.10774."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from .about import About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .centroids import ranks, slots
from .checks import whole
from .reading import of_keys
from .registry import register
from .tiles import chosen_blocks

__all__ = ["Quest"]


@register
@dataclass(frozen=True, eq=False)
class Quest(Finder):
    """Give each query the k pages of keys in which a score could be highest, by the least and greatest of their keys.

    >>> Quest(page=16, k=8)(q, k)

    A page is so many neighbouring keys. In each dimension the least and the greatest of its keys are known, and with
    Σ max(q · least, q · greatest) a number that no score of the page exceeds: the pages where it is highest are taken.

    As in the paper's cache, a page that is still being filled is known by the keys that are in it. So of the page with
    the last key that a query may see, what comes after that key does not count, whether it is there already or not; all
    pages before it are full. A query gets the same pages in a decoding step as in the whole sequence.

    k: one number for all heads, or one per head.

    On a GPU it waits for the device once, for how many pages there are, and with a k per head for the largest.
    """

    page: int
    k: int | Int[Tensor, " heads"]

    about = About(
        "quest", "Quest", "rival", compares="scores", paper="Tang et al., 2024, arXiv:2406.10774",
        dials=(Dial("k", whole=True),), grid={"page": (16,)},
        words={"page": "pages of {} key(s)", "k": "the best {} page(s)"}, look=Look("#2e7d32", "#81d885", "8"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, page=self.page)
        whole(0, k=self.k)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        found = []
        for bounds in self._bounds(q, k, grid, slice(0, grid.n)):
            best, chosen = bounds.topk(min(most, bounds.shape[-1]), -1)
            found.append(slots(torch.where(best > -math.inf, chosen, -1), self.k))
        return chosen_blocks(torch.cat(found, 2), 1, self.page, grid) if found else Graph(grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        found = [ranks(each.argsort(-1, descending=True)) for each in self._bounds(q, k, grid, queries)]
        if not found:
            return q.new_zeros(grid.batch, grid.heads, q[:, :, queries].shape[2], grid.m).double()
        return torch.cat(found, 2)[..., torch.arange(grid.m, device=grid.device) // self.page].double()

    def _bounds(
        self, q: Queries, k: Keys, grid: Grid, queries: slice
    ) -> Iterator[Float[Tensor, "batch heads some pages"]]:
        """What no score of a page exceeds, for some queries at a time; −∞ for pages of which they may see nothing."""
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q[:, :, queries], k))
        count = -(-grid.m // self.page)
        least, greatest = (self._running(k, grid, sign) for sign in (-1, 1))
        ends = [each.unflatten(2, (-1, self.page))[:, :, :, -1].mT for each in (least, greatest)]
        seen = grid.degrees()[:, queries]
        for rows in chunks(q.shape[2] if grid.m else 0, grid.batch * grid.heads * count):
            below, above = q[:, :, rows].clamp(max=0), q[:, :, rows].clamp(min=0)
            bounds = below @ ends[0] + above @ ends[1]
            # What a query may see are always the first keys.
            last = (seen[:, None, rows, None] - 1).clamp(min=0)
            there = [each.take_along_dim(last, 2) for each in (least, greatest)]
            filling = (below * there[0] + above * there[1]).sum(-1, keepdim=True)
            bounds.scatter_(-1, (last // self.page).expand_as(filling), filling)
            first = torch.arange(count, device=grid.device) * self.page
            yield bounds.masked_fill(first >= seen[:, None, rows, None], -math.inf)

    def _running(self, k: Keys, grid: Grid, sign: int) -> Float[Tensor, "batch heads padded d"]:
        """In each dimension the greatest of the keys of a page up to each key, or with −1 the least; 0 in padding."""
        real = grid.real_keys()[:, None, :, None]
        keys = torch.where(real, sign * k, -math.inf)
        keys = torch.nn.functional.pad(keys, (0, 0, 0, -grid.m % self.page), value=-math.inf)
        running = keys.unflatten(2, (-1, self.page)).cummax(3).values.flatten(2, 3)
        return sign * running.masked_fill(running == -math.inf, 0.0)

    def cost(self, n: int, m: int, d: int) -> float:
        return min(2.0 * n * -(-m // self.page) * d, float(n) * m * d)

    def reads(self, n: int, m: int, d: int) -> float:
        return min(of_keys(-(-m // self.page), 2 * d), of_keys(m, d))
