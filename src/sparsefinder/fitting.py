"""Fitting: the only place where maps are learned, finders are fitted, and settings are chosen for a wanted recall."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from .core.metrics import GraphMetrics
from .errors import InputError, is_number
from .finders import Finder, Fitting, Heads, Learned, finder, finder_class
from .finders.base import roles
from .finders.budget import Curve, allot
from .finders.dials import Needs
from .learning.learn import learn
from .learning.moments import principal
from .learning.projection import Projection
from .learning.sample import Sample

__all__ = [
    "Choice",
    "Wanted",
    "Ways",
    "candidates",
    "check_budget",
    "choose",
    "enough_steps",
    "fit_finder",
    "learn_maps",
    "map_settings",
    "seeded",
    "spent",
]

Key = TypeVar("Key")
# Steps of learning maps, at the least: about as many as the paper's 500 sequences make, 16 to a step.
STEPS = 32


@dataclass(frozen=True)
class Wanted:
    """A recall that every head should reach as sparsely as it can, a sparsity that every head should have, or a budget:
    the share of all pairs that all heads together may look at, each as many as are worth it (`finders/budget.py`).
    """

    recall: float | None = None
    sparsity: float | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        if len(self.as_settings) != 1:
            names, values = zip(*asdict(self).items(), strict=True)
            raise InputError(", ".join(names), ", ".join(map(str, values)), "one of them")
        for name, share in self.as_settings.items():
            if not (is_number(share) and 0 <= share <= 1):
                raise InputError(name, repr(share), "a share of the pairs, from 0 to 1")

    @property
    def as_settings(self) -> dict[str, float]:
        """What is wanted, by its name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Choice:
    """A finder that was chosen, and what every head has with it on the sequences it was chosen on."""

    finder: Finder
    recall: list[float] = field(default_factory=list)
    sparsity: list[float] = field(default_factory=list)


def map_settings(one: Finder) -> dict[str, Any]:
    """What the maps that a finder compares in are learned for, besides the layer: its blocks, say."""
    return {name: getattr(one, name) for name, role in roles(type(one)) if role == "maps"}


def enough_steps(count: int, batch: int, how: Fitting) -> tuple[int, Fitting]:
    """How many sequences of so many to a step of learning maps, and how: so that there are `STEPS` steps at least.

    Few sequences come in smaller batches than asked for, which takes no longer, and if need be several times.
    """
    size = max(1, min(batch, count // STEPS))
    return size, replace(how, epochs=max(how.epochs, -(-STEPS // -(-count // size))))


def learn_maps(
    inputs: str,
    one: Finder,
    samples: Iterable[Sample],
    how: Fitting = Fitting(),
    progress: Callable[[int, float], None] | None = None,
) -> Projection | None:
    """The maps of a layer that a finder compares in: learned, principal components, or none."""
    if inputs == "pca":
        return principal(samples, how.r)
    if inputs != "projected":
        return None
    return learn(
        samples, how.r, shared=how.shared, margin=how.margin, rate=how.rate, summed=how.summed, epochs=how.epochs,
        seed=how.seed, progress=progress, **map_settings(one),
    )  # fmt: skip


def seeded(one: Finder, seed: int) -> Finder:
    """A finder that draws, with the seed of the run; others as they are."""
    draws = ("seed", "run") in roles(type(one))
    return replace(one, seed=seed) if draws else one  # type: ignore[call-arg]


def fit_finder(
    one: Finder, samples: Iterable[Sample], how: Fitting = Fitting(), maps: Projection | None = None
) -> Finder:
    """A finder with its maps, and with what it has to learn from the samples of one layer."""
    one = one if maps is None else replace(one, projection=maps)  # type: ignore[call-arg]
    return one.fit(samples, how) if isinstance(one, Learned) and not one.ready else one


def candidates(method: str, settings: Mapping[str, Any], wanted: Wanted | None) -> Iterator[Finder]:
    """A method with every combination of the settings that are given as lists, not fitted yet.

    Where something is wanted, the method's own grid stands in for settings that are not given, and its dial waits to be
    set unless it is given.
    """
    about = finder_class(method).about
    lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in settings.items()}
    if wanted is not None:
        lists = {**{name: list(values) for name, values in about.grid.items()}, **lists}
        if about.dials and not any(dial.field in settings for dial in about.dials):
            lists |= {name: [value] for name, value in about.dials[0].start.items()}
    found, wrong = False, None
    for values in itertools.product(*lists.values()):
        try:
            one = finder(method, **dict(zip(lists, values, strict=True)))
        except InputError as error:
            # Of a grid, what cannot be is left out: more of the nearest clusters than there are.
            wrong = wrong or error
            continue
        found = True
        yield one
    if not found:
        raise wrong or InputError(f"settings of {method}", dict(settings), "no empty list")


def check_budget(method: str, options: Sequence[Finder], settings: Mapping[str, Any], cost: float | None) -> None:
    """Raise unless a method can be told how many pairs to look at: it has one dial, which is not set, and one fit, or
    several and a cost that finding may have.
    """
    dial = options[0].dial
    if dial is None:
        raise InputError("budget", f"for {method}", "a method with a dial (`sparsefinder methods` lists them)")
    if dial.field in settings:
        raise InputError("budget", f"with {dial.field}={settings[dial.field]}", f"without {dial.field}, which it sets")
    if len(options) > 1 and cost is None:
        raise InputError(f"settings of {method}", "lists", "single values beside a budget, or a cost too: cost=0.2")
    if len(options) == 1 and cost is not None:
        raise InputError("cost", cost, f"settings of {method} to choose among beside it, as lists: r=[4, 8, 16]")
    if any(one.dial is not dial for one in options):
        raise InputError(f"settings of {method}", "several dials", "one that all of them have")
    if cost is not None and not (is_number(cost) and cost > 0):
        raise InputError("cost", repr(cost), "a share of the multiplications of all scores, above 0")


def choose(
    fitted: Sequence[Finder], held: Iterable[Sample], wanted: Wanted, extra: Finder | None = None, *, turn: bool = True
) -> Choice:
    """For each head the cheapest of some fitted finders that has the wanted recall, on sequences held out.

    Unless a method says what its graphs cost, the sparsest is the cheapest.

    turn: set the dial of finders that have one; else they are taken as they are.
    A budget is spent on the heads of this layer.
    """
    if wanted.budget is not None:
        return spent({0: Ways.of(fitted, held, extra)}, wanted.budget)[0]
    every = [variant for one in fitted for variant in (one.variants() if turn else (one,))]
    options = [_turned(one, held, wanted, extra) if turn and one.dial else _measured(one, held, extra) for one in every]
    recall, sparsity = (torch.tensor([getattr(option, name) for option in options]) for name in ("recall", "sparsity"))
    _, _, m, d = next(iter(held)).k.shape
    price = torch.stack([option.finder.price(1 - each, m, d) for option, each in zip(options, sparsity, strict=True)])
    best = _best(recall, sparsity, price, wanted)
    heads = range(len(best))
    chosen = _joined([option.finder for option in options], best)
    return Choice(chosen, [float(recall[best[h], h]) for h in heads], [float(sparsity[best[h], h]) for h in heads])


def spent(ways: Mapping[Key, Ways], budget: float, most: float = math.inf) -> dict[Key, Choice]:
    """Finders of several layers, with their dials where one budget of all their heads finds the most weight.

    most: what finding may cost, on the mean over heads, as a share of the multiplications of all scores.
    """
    heads = [each for layer in ways.values() for each in layer.heads]
    places = iter(allot(heads, [layer.costs for layer in ways.values() for _ in layer.heads], budget, most))
    return {key: layer.chosen([next(places) for _ in layer.heads]) for key, layer in ways.items()}


@dataclass(frozen=True, eq=False)
class Ways:
    """The ways to find that the heads of a layer have: what each of them has with each, and what finding costs."""

    finders: Sequence[Finder]
    curves: Sequence[Sequence[Curve]]
    costs: Sequence[float]

    @classmethod
    def of(cls, fitted: Sequence[Finder], held: Iterable[Sample], extra: Finder | None, most: float = math.inf) -> Ways:
        """Of finders that differ in their settings, on sequences held out; `most` is what one of them has to cost."""
        first = next(iter(held))
        n, m, d = first.q.shape[2], first.k.shape[2], first.q.shape[3]
        costs = [one.cost(n, m, d) / (n * m * d) for one in fitted]
        if min(costs) > most:
            raise InputError("cost", most, f"at least {min(costs):.4f}, which the cheapest of these settings takes")
        return cls(fitted, [Needs(one, held, extra).curves() for one in fitted], costs)

    @property
    def heads(self) -> list[tuple[Curve, ...]]:
        """The curves of each head."""
        return list(zip(*self.curves, strict=True))

    def chosen(self, places: Sequence[tuple[int, int]]) -> Choice:
        """The finder that has for each head the way and the place on its curve."""
        turned = [
            one.turned(
                torch.tensor(
                    [curve.settings[at if own == way else 0] for curve, (own, at) in zip(curves, places, strict=True)],
                    dtype=torch.float64,
                )
            )
            for way, (one, curves) in enumerate(zip(self.finders, self.curves, strict=True))
        ]
        found = [(curves[way], at) for curves, (way, at) in zip(self.heads, places, strict=True)]
        recall, sparsity = [curve.recall[at] for curve, at in found], [1 - curve.pairs[at] for curve, at in found]
        return Choice(_joined(turned, [way for way, _ in places]), recall, sparsity)


def _joined(options: Sequence[Finder], which: Sequence[int]) -> Finder:
    """One finder that has for each head the option of this number."""
    used = sorted(set(which))
    if len(used) == 1:
        return options[used[0]]
    several, places = tuple(options[each] for each in used), tuple(used.index(each) for each in which)
    return several[0].joined(several, places) or Heads(several, places)


def _turned(one: Finder, held: Iterable[Sample], wanted: Wanted, extra: Finder | None) -> Choice:
    needs = Needs(one, held, extra)
    settings = needs.settings(**wanted.as_settings)
    return Choice(one.turned(settings), needs.recall(settings).tolist(), needs.sparsity(settings).tolist())


def _measured(one: Finder, held: Iterable[Sample], extra: Finder | None) -> Choice:
    metrics, whole = GraphMetrics(), one if extra is None else one | extra
    for sample in held:
        metrics.update(whole(sample.q, sample.k, sample.layout), sample.gold)
    return Choice(one, metrics.by_head("recall")[0].tolist(), metrics.by_head("sparsity")[0].tolist())


def _best(recall: Tensor, sparsity: Tensor, price: Tensor, wanted: Wanted) -> list[int]:
    """For each head the best option that has what is wanted, or the one that comes closest if none has it."""
    # A head without a gold pair finds all there is.
    recall = recall.nan_to_num(nan=1.0)
    asked, least, other = recall, wanted.recall, -price
    if least is None:
        asked, least, other = sparsity, wanted.sparsity, recall
    assert least is not None
    enough = asked >= least - 1e-6
    among = torch.where(enough, other.to(asked), -torch.inf).argmax(0)
    return torch.where(enough.any(0), among, asked.argmax(0)).tolist()
