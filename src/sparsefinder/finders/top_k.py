"""The best graph of a given size: no finder that predicts so many pairs has a higher recall."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.chunks import chunks
from ..core.entmax import entmax_threshold
from ..core.graph import Graph
from ..core.layout import Grid
from ..errors import InputError
from .about import RUN, About, Dial, Look, Place
from .base import Finder, Keys, Queries, Settings
from .checks import between
from .reading import of_keys
from .registry import register

__all__ = ["TopK"]


@register
@dataclass(frozen=True, eq=False)
class TopK(Finder):
    """The share of the visible pairs of a head that lie highest above (or least below) their row's entmax threshold.

    >>> TopK(0.05)(q, k).sparsity()  # 0.95

    Above the threshold are the gold pairs, so these come first. Computes all scores, and keeps those of a head.

    share: rounded to a number of pairs; with them comes what lies as high as the last. One share, or one per head.
    alpha: one for all heads, or one per head.
    scale: what scores are multiplied by; 1 / √d if None.
    """

    share: int | float | Float[Tensor, " heads"]
    alpha: float | Float[Tensor, " heads"] = field(default=1.5, metadata=RUN)
    scale: float | None = field(default=None, metadata=RUN)

    about = About(
        "topk", "best of its size", "reference", compares="scores", dials=(Dial("share", most=1),),
        words={"share": "the best {%} of all pairs"}, look=Look("#666666", "#b0b0b0", "|"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        between(0, 1, share=self.share)
        if bool((torch.as_tensor(self.alpha) <= 1).any()):
            raise InputError("alpha", self.alpha, "a number above 1: softmax has no threshold")

    @property
    def query_wise(self) -> bool:
        # Pairs of all rows compete for the same places.
        return False

    def at(self, place: Place) -> TopK:
        alpha = torch.tensor(place.alpha) if isinstance(place.alpha, tuple) else place.alpha
        return replace(self, alpha=alpha, scale=place.scale)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        shares = torch.as_tensor(self.share, dtype=torch.float64).expand(grid.heads).tolist()
        visible = grid.degrees().sum(-1).tolist()
        found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
        for head in range(grid.batch * grid.heads):
            b, h = divmod(head, grid.heads)
            wanted = math.floor(visible[b] * shares[h] + 0.5 + 1e-6)
            if wanted:
                above = self._above(q, k, grid, b, h)
                last = above.kthvalue(len(above) - min(wanted, len(above)) + 1).values
                chosen = (above >= last) & (above > -math.inf)
                found.append(chosen.nonzero().squeeze(-1) + head * grid.n * grid.m)
        return Graph.of_numbers(torch.cat(found), grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        visible, settings = grid.degrees().sum(-1).clamp(min=1), []
        for b in range(grid.batch):
            for h in range(grid.heads):
                above = self._above(q, k, grid, b, h)
                here = above.view(grid.n, grid.m)[queries]
                higher = len(above) - torch.searchsorted(above.sort().values, here.contiguous(), right=True)
                settings.append((higher + 0.5).double() / visible[b])
        return torch.stack(settings).unflatten(0, (grid.batch, grid.heads))

    def _above(self, q: Queries, k: Keys, grid: Grid, b: int, h: int) -> Float[Tensor, " pairs"]:
        """How high the pairs of a head lie above the threshold of their row; −∞ for what may not be seen."""
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        alpha = float(self.alpha[h]) if isinstance(self.alpha, Tensor) else self.alpha
        # What a query may see are always the first keys.
        visible, keys = grid.degrees()[b], torch.arange(grid.m, device=grid.device)
        parts = [q.new_empty(0)]
        for queries in chunks(grid.n, grid.m):
            scores = q[b, h, queries] * scale @ k[b, h].mT
            scores = scores.masked_fill(keys >= visible[queries, None], -math.inf)
            parts.append((scores - entmax_threshold(scores, alpha)[..., None].nan_to_num(neginf=0.0)).flatten())
        return torch.cat(parts)

    def cost(self, n: int, m: int, d: int) -> float:
        return float(n) * m * d

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, d)
