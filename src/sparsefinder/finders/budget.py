"""One budget for all heads of a model: a pair is spent where it finds the most weight.

Heads differ in how much there is to find. To give each the same sparsity starves those that look at many keys, and to
give each the same recall pays for pairs that hardly weigh anything. Both leave twice as much weight behind as this does
(docs/finders.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Curve", "spend"]


@dataclass(frozen=True)
class Curve:
    """What a head has at some settings of its dial, from the least on, as shares: of all its pairs those that are
    looked at, and of the weight and the number of its gold pairs those that are found.
    """

    settings: tuple[float, ...]
    pairs: tuple[float, ...]
    weight: tuple[float, ...]
    recall: tuple[float, ...]

    @classmethod
    def of(cls, saved: Mapping[str, Sequence[float]]) -> Curve:
        """From what `asdict` makes of it, and JSON of that."""
        return cls(**{name: tuple(values) for name, values in saved.items()})

    @cached_property
    def hull(self) -> tuple[int, ...]:
        """The places of settings that are worth more weight for a pair than all after them, the first included."""
        kept = [0]
        for place in range(1, len(self.settings)):
            # Not so where there is no gold pair, and weight is NaN.
            if self.weight[place] > self.weight[kept[-1]]:
                while len(kept) > 1 and self.worth(*kept[-2:]) <= self.worth(kept[-1], place):
                    kept.pop()
                kept.append(place)
        return tuple(kept)

    def worth(self, one: int, other: int) -> float:
        """The weight that a pair more finds, from one place to another."""
        more = self.pairs[other] - self.pairs[one]
        return (self.weight[other] - self.weight[one]) / more if more > 0 else math.inf


def spend(curves: Sequence[Curve], budget: float) -> list[int]:
    """For each head the place on its curve: most weight in all with the share `budget` of the pairs, mean over heads.

    The first settings are taken in any case, then what is worth most. Of a step that would take more than is left, as
    much is taken as there is; that may be less than the best, but by less than this one step.
    """
    places = [0] * len(curves)
    left = budget * len(curves) - math.fsum(curve.pairs[0] for curve in curves)
    steps = [
        (-curve.worth(one, other), head, one, other)
        for head, curve in enumerate(curves)
        for one, other in itertools.pairwise(curve.hull)
    ]
    for _, head, one, other in sorted(steps):
        pairs = curves[head].pairs
        if places[head] == one:
            places[head] = max((at for at in range(one, other + 1) if pairs[at] - pairs[one] <= left), default=one)
            left -= pairs[places[head]] - pairs[one]
    return places
