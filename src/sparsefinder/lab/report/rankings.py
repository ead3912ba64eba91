"""The table of methods, and how far apart they are: differences with their bootstrap intervals.

Two rankings answer two questions. The hypervolume of recall says who finds the teacher's own pairs, over all settings
of the sweep; that of the score says who keeps what the model is for, over those settings that were run inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ...core.pareto import frontier
from ..sweep.bootstrap import Interval, interval
from ..sweep.points import Floats, Ints
from ..sweep.summary import RECALLS
from .charts import Cloud, FullScore
from .methods import Series

__all__ = [
    "TOLERANCE", "Difference", "Line", "Ranked", "covers", "enough", "methods_table", "ranking", "reaching",
    "rivals",
]  # fmt: skip

Score = TypeVar("Score", float, Floats)

# A score counts as that of the full model if it is worse by no more than this share of it.
TOLERANCE = 0.01
# Of one sequence nothing follows: any difference may be one or none.
UNKNOWN = Interval(-np.inf, np.inf)


@dataclass(frozen=True)
class Difference:
    """How much larger one number is than another, and the interval of that."""

    value: float
    within: Interval


@dataclass(frozen=True)
class Ranked:
    """A series by some number: the number and its interval, how far it is behind the first, and where in the cloud."""

    series: Series
    value: float
    within: Interval
    behind: Difference
    place: int | None = None


@dataclass(frozen=True)
class Reached:
    """The sparsest point that reaches something: its place in the cloud and its sparsity."""

    place: int
    sparsity: float
    # The multiplications of finding, as a share of those of all scores.
    cost: float | None = None


@dataclass(frozen=True)
class Line:
    """A line of the table of methods."""

    series: Series
    points: int
    hypervolume: float
    within: Interval | None
    at_recall: Sequence[Reached | None]
    # How many of its settings were run inside the model, their hypervolume, and the sparsest that keeps its score.
    scored: int
    score_hypervolume: float | None = None
    score_within: Interval | None = None
    at_score: Reached | None = None


def methods_table(recall: Cloud, scores: Cloud | None, score: FullScore | None) -> list[Line]:
    """One line per series, the largest hypervolume of recall first; both clouds have the same series."""
    lines = []
    for number, series in enumerate(recall.series):
        mine, _ = recall.of(number)
        if not len(mine):
            continue
        volume, within = recall.measured.volume(series.key), recall.measured.volume_interval(series.key)
        at_recall = [_sparsest(recall, mine, wanted) for wanted in RECALLS]
        line = Line(series, len(mine), volume, within, at_recall, 0)
        if scores is not None and score is not None and len(inside := scores.of(number)[0]):
            own = scores.measured
            volumes = own.volume(series.key), own.volume_interval(series.key)
            at_score = _sparsest(scores, inside, enough(score.upwards(score.value)))
            line = Line(series, len(mine), volume, within, at_recall, len(inside), *volumes, at_score)
        lines.append(line)
    return sorted(lines, key=lambda line: -line.hypervolume)


def rivals(cloud: Cloud) -> list[int]:
    """The numbers of the series that compete and were measured."""
    return [number for number, one in enumerate(cloud.series) if one.competes and len(cloud.of(number)[0])]


def ranking(cloud: Cloud) -> list[Ranked]:
    """The competing series by hypervolume, the largest first."""
    found = []
    for number in rivals(cloud):
        series = cloud.series[number]
        found.append((series, cloud.measured.volume(series.key), cloud.measured.drawn_volume(series.key), None))
    return _ranked(found)


def reaching(cloud: Cloud, wanted: float, drawn: Floats | float) -> list[Ranked]:
    """The competing series that reach a quality, by their highest sparsity there.

    drawn: what has to be reached in each draw. A series that does not reach it in a draw has a sparsity of 0 there:
    full attention always does.
    """
    found = []
    for number in rivals(cloud):
        mine = cloud.of(number)[0]
        best = _sparsest(cloud, mine, wanted)
        if best is not None:
            draws = cloud.draws
            if draws is not None:
                x, y = draws.sparsity[:, mine], cloud.measured.upwards(draws.value[:, mine])
                sparsest = np.where(y >= np.reshape(drawn, (-1, 1)), x, 0.0).max(-1)
            found.append((cloud.series[number], best.sparsity, None if draws is None else sparsest, best.place))
    return _ranked(found)


def _ranked(found: Sequence[tuple[Series, float, Floats | None, int | None]]) -> list[Ranked]:
    ordered = sorted(found, key=lambda one: -one[1])
    ranked = []
    for series, value, draws, place in ordered:
        _, first, first_draws, _ = ordered[0]
        within = UNKNOWN if draws is None else interval(draws)
        apart = UNKNOWN if draws is None or first_draws is None else interval(first_draws - draws)
        ranked.append(Ranked(series, value, within, Difference(first - value, apart), place))
    return ranked


def enough(full: Score) -> Score:
    """What still counts as the full model's score, upwards being better."""
    return full - TOLERANCE * abs(full)


def covers(points: Floats, mine: Ints, theirs: Ints) -> bool:
    """Whether each of their points has one of mine that is at least as good in both."""
    own, others = (points[places][frontier(points[places])] for places in (mine, theirs))
    return bool((own[:, None] >= others).all(-1).any(0).all())


def _sparsest(cloud: Cloud, places: Ints, wanted: float) -> Reached | None:
    good = places[cloud.y[places] >= wanted]
    if not len(good):
        return None
    best = good[cloud.x[good].argmax()]
    cost = cloud.measured.columns.get("cost")
    return Reached(int(best), float(cloud.x[best]), None if cost is None else float(cost[best]))
