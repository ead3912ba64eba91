"""Distance-based pairing: near in the projected space. Sec. 4.3 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.pieces import Near
from ..core.pieces.rules import apart
from ..learning.projection import Projection
from .about import LEARNED, About, Dial, Look
from .base import Finder, Keys, Queries, Settings
from .checks import at_least, rounded_down
from .reading import of_keys
from .registry import register

__all__ = ["Distance"]


@register
@dataclass(frozen=True, eq=False)
class Distance(Finder):
    """Connect each query to the keys at a Euclidean distance of at most t from it, after projection.

    >>> Distance(1.0, projection=projection)(q, k)

    t: one distance for all heads, or one per head.
    squared: compare the squared distance with t, as the authors' code does.
    projection: where distances are measured; None for the queries and keys as they are.

    On a GPU it never waits for the device.
    """

    t: int | float | Float[Tensor, " heads"]
    squared: bool = False
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "distance", "distance", "paper", compares="closeness", paper="Treviso et al., 2022, Sec. 4.3",
        dials=(Dial("t", every_pair=True),), words={"t": "distance up to {}"},
        look=Look("#c84e00", "#ff8f4d", "o"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        at_least(0, t=self.t)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        t = torch.as_tensor(self.t, dtype=torch.float64, device=q.device).expand(grid.heads)
        limit = rounded_down(t if self.squared else t.square(), q.dtype)
        return Graph(grid, (Near(q.detach(), k.detach(), limit),))

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        far = apart(q[:, :, queries, None], k[:, :, None]).double()
        if self.squared:
            return far
        root = far.sqrt()
        # The root of a number may be rounded down to one whose square is below it.
        return torch.where(root.square() < far, torch.nextafter(root, torch.full_like(root, torch.inf)), root)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return float(n) * m * r + (0 if self.projection is None else (n + m) * d * r)

    def reads(self, n: int, m: int, d: int) -> float:
        r = d if self.projection is None else self.projection.queries.shape[-1]
        return of_keys(m, r)
