"""One budget for all heads of a model: a pair is spent where it finds the most weight.

Heads differ in how much there is to find. To give each the same sparsity starves those that look at many keys, and to
give each the same recall pays for pairs that hardly weigh anything. Both leave twice as much weight behind as this does
(docs/finders.md). Likewise what finding costs: dimensions of a sketch are worth more to some heads than to others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

__all__ = ["Curve", "allot", "spend"]

# Halvings of the price of finding, once one is known that is high enough; none is looked for above the highest.
HALVINGS, HIGHEST = 30, 1e12


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
    # What costs no pair is taken even where there is none left.
    left = max(0.0, budget * len(curves) - math.fsum(curve.pairs[0] for curve in curves))
    steps = [
        (-curve.worth(one, other), head, one, other)
        for head, curve in enumerate(curves)
        for one, other in itertools.pairwise(curve.hull)
    ]
    for _, head, one, other in sorted(steps):
        pairs = curves[head].pairs
        if places[head] == one:
            within = [at for at in range(one, other + 1) if pairs[at] - pairs[one] <= left]
            places[head] = max(within, key=lambda at: curves[head].weight[at], default=one)
            left -= pairs[places[head]] - pairs[one]
    return places


def allot(
    heads: Sequence[Sequence[Curve]], costs: Sequence[Sequence[float]], budget: float, most: float
) -> list[tuple[int, int]]:
    """For each head one of its curves, and the place on it: most weight with the share `budget` of the pairs, where
    finding costs no more than `most`, mean over heads.

    heads, costs: the curves of every head, one for each way to find, and what finding takes then.

    Weight is paid for in costs at one price for all heads, the lowest at which they are kept: that may find less than
    the best, by about one step; but never less than any one way for all heads does, nor than the cheapest of each.
    """

    def cost(chosen: list[tuple[int, int]]) -> float:
        return fmean(each[way] for each, (way, _) in zip(costs, chosen, strict=True))

    def weight(chosen: list[tuple[int, int]]) -> float:
        return math.fsum(_known(curves[way].weight[at]) for curves, (way, at) in zip(heads, chosen, strict=True))

    alike = [[way] * len(heads) for way in range(min(map(len, heads)))]
    found = []
    for ways in ([each.index(min(each)) for each in costs], *alike):
        places = spend([curves[way] for curves, way in zip(heads, ways, strict=True)], budget)
        found.append(list(zip(ways, places, strict=True)))
    low, high = 0.0, 1.0
    found.append(_at_price(heads, costs, budget, low))
    if cost(found[-1]) > most:
        while cost(_at_price(heads, costs, budget, high)) > most and high < HIGHEST:
            low, high = high, 4 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found.append(_at_price(heads, costs, budget, middle))
            low, high = (middle, high) if cost(found[-1]) > most else (low, middle)
        found.append(_at_price(heads, costs, budget, high))
    return max((chosen for chosen in found if cost(chosen) <= most), key=weight)


def _at_price(
    heads: Sequence[Sequence[Curve]], costs: Sequence[Sequence[float]], budget: float, price: float
) -> list[tuple[int, int]]:
    """The same where weight is paid for: all that a head can have is one curve, of pairs and of what is left of it."""
    every, owners = [], []
    for curves, each in zip(heads, costs, strict=True):
        some = sorted(
            (curve.pairs[place], -(_known(curve.weight[place]) - price * each[way]), way, place)
            for way, curve in enumerate(curves)
            for place in range(len(curve.settings))
        )
        pairs, lost, ways, places = zip(*some, strict=True)
        left = tuple(-value for value in lost)
        every.append(Curve(tuple(map(float, range(len(some)))), pairs, left, left))
        owners.append(list(zip(ways, places, strict=True)))
    return [owner[place] for owner, place in zip(owners, spend(every, budget), strict=True)]


def _known(weight: float) -> float:
    """Nothing where there is nothing to find."""
    return 0.0 if math.isnan(weight) else weight
