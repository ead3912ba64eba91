"""Loki: scores in the first principal components of the keys. Singhania et al., 2024, arXiv:2406.02542."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.moments import principal_of_keys
from ..learning.projection import Projection
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import between, whole
from .reading import of_keys
from .registry import register
from .shares import best_share, least_shares, plain

__all__ = ["Loki"]


@register
@dataclass(frozen=True, eq=False)
class Loki(Learned):
    """Connect each query to the keys that score best in the first r principal components of the keys.

    >>> Loki(r=16, share=0.1).fit([Sample(q, k)])(q, k)

    The paper learns the components of keys before or after their rotation by position, whichever serves a model better:
    here they are always the keys that are compared, after it.

    share: of the keys that a query may see, rounded up, with what scores as high as the last of them. One, or one per
    head.
    projection: to the components, the same for queries and keys.
    """

    r: int = field(metadata=FIT)
    share: int | float | Float[Tensor, " heads"]
    projection: Projection | None = field(default=None, metadata=LEARNED)

    about = About(
        "loki", "Loki", "rival", compares="scores", paper="Singhania et al., 2024, arXiv:2406.02542",
        dials=(Dial("share", most=1, every_pair=True),), grid={"r": (8,)},
        words={"r": "{} component(s) of keys", "share": "keeps the best {%} of keys"},
        look=Look("#4b6bfb", "#a9b8ff", "s"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, r=self.r)
        between(0, 1, share=self.share)

    @property
    def ready(self) -> bool:
        return self.projection is not None

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Loki:
        """The directions in which training keys vary most."""
        return replace(self, projection=principal_of_keys(samples, self.r))

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        queries, keys = plain(q), plain(k).mT
        return best_share(lambda some: queries[:, :, some] @ keys, self.share, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        return least_shares(plain(q[:, :, queries]) @ plain(k).mT, grid, queries)

    def cost(self, n: int, m: int, d: int) -> float:
        r = min(self.r, d)
        return r * (float(n) * m + float(n + m) * d)

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, min(self.r, d))
