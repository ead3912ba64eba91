"""Scores of low rank, of maps that bend. Ours.

A map to few dimensions has to leave out most of what a token is, and a straight one leaves out the same of all. With
numbers more of which each counts only on one side of a plane, r dimensions say more, and a key has no more bytes
(docs/finders.md). Mapping takes many times as many multiplications.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.mapping import Layer, bent
from ..learning.bends import bend
from ..learning.moments import low_rank
from ..learning.projection import check_tokens
from ..learning.rows import refine
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Look
from .base import Finder, Fitting, Keys, Queries
from .checks import whole
from .coded import SHARE, SLACK, WORDS, Coded, of_own
from .registry import register

__all__ = ["BentSketch"]


@register
@dataclass(frozen=True, eq=False)
class BentSketch(Coded):
    """Connect each query to the keys that score best in r dimensions of learned maps that bend, rounded to 8 bits.

    >>> BentSketch(r=4, slack=2.0).fit([Sample(q, k)])(q, k)

    A query or key x is followed by what some units say of it, ReLU(x·w + b), and mapped then. All else is as with
    `Sketch`: `slack`, `share`, `ranks`; with units that say nothing it is one. An index has straight maps, and it none:
    while decoding, all keys are mapped anew at each step.

    units: so many for the queries of each head, and as many for its keys. 64 are enough: 256 are no better.
    steps: of learning the maps straight, and then as many of learning them bent.
    query_layer, key_layer: the units; last rows are added to all.
    projection: from widened tokens to where inner products are scores, and keys are worth rounding to whole numbers.

    On a GPU it never waits for the device.
    """

    r: int = field(default=4, metadata=FIT)
    steps: int = field(default=300, metadata=FIT)
    units: int = field(default=64, metadata=FIT)
    query_layer: Layer | None = field(default=None, metadata=LEARNED)
    key_layer: Layer | None = field(default=None, metadata=LEARNED)

    about = About(
        "bent-sketch", "bent sketch", "ours", compares="scores", dials=(SLACK, SHARE),
        words={**WORDS, "units": "{} unit(s)", "steps": "learned in {} steps, straight and then bent"},
        look=Look("#00a651", "#5cf2a6", "^"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, r=self.r, steps=self.steps, units=self.units)

    @property
    def ready(self) -> bool:
        return not any(each is None for each in (self.projection, self.query_layer, self.key_layer))

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> BentSketch:
        """The best scores of rank r by SVD, learned further for which keys come first, and then bent."""
        straight = refine(low_rank(samples, self.r), samples, self.steps, seed=how.seed)
        maps, query_layer, key_layer = bend(straight, samples, self.steps, self.units, seed=how.seed)
        return replace(self, projection=maps, query_layer=query_layer, key_layer=key_layer)

    def compared(self, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
        """Queries and keys where they are compared: widened, then mapped."""
        maps, query_layer, key_layer = self.projection, self.query_layer, self.key_layer
        assert maps is not None
        assert query_layer is not None
        assert key_layer is not None
        # Units have a row more than a token has numbers.
        check_tokens("q", q, query_layer[:, 1:])
        check_tokens("k", k, key_layer[:, 1:], shared=True)
        return bent(q.detach(), query_layer, maps.queries), bent(k.detach(), key_layer, maps.keys)

    @classmethod
    def joined(cls, options: Sequence[Finder], which: Sequence[int]) -> BentSketch | None:
        """As of sketches; fewer units are followed by some that say nothing."""
        one = super().joined(options, which)
        several = [each for each in options if isinstance(each, cls) and each.ready]
        if not isinstance(one, cls) or len(several) < len(options):
            return None
        queries, keys = (
            of_own([getattr(each, f"{side}_layer") for each in several], which) for side in ("query", "key")
        )
        return replace(one, units=queries.shape[-1], query_layer=queries, key_layer=keys)

    def price(self, density: Float[Tensor, " heads"], m: int, d: int) -> Float[Tensor, " heads"]:
        ranks = torch.full_like(density, self.r) if self.ranks is None else self.ranks.to(density)
        return super().price(density, m, d) + self.units * (1 + ranks / d) * 2 / m

    def cost(self, n: int, m: int, d: int) -> float:
        ranks = self.r if self.ranks is None else float(self.ranks.double().mean())
        return min(super().cost(n, m, d) + (n + m) * self.units * (d + ranks), float(n) * m * d)
