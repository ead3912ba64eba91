"""What the points say, in a few sentences and a table, both computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.pareto import frontier, hypervolume
from ..sweep.summary import RECALLS
from .charts import Cloud, FullScore
from .methods import Series
from .points import NO_PARAMETERS

__all__ = ["TOLERANCE", "Line", "methods_table", "verdict"]

# A score counts as that of the full model if it is worse by no more than this share of it.
TOLERANCE = 0.01


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
    at_recall: Sequence[Reached | None]
    # How many of its settings were run inside the model, and the sparsest that keeps its score.
    scored: int
    at_score: Reached | None


def methods_table(recall: Cloud, scores: Cloud | None, score: FullScore | None) -> list[Line]:
    """One line per series, the largest hypervolume first; both clouds have the same series."""
    lines = []
    for number, series in enumerate(recall.series):
        mine, _ = recall.of(number)
        if not len(mine):
            continue
        scored, at_score = 0, None
        if scores is not None and score is not None:
            inside, _ = scores.of(number)
            scored, at_score = len(inside), _sparsest(scores, inside, _enough(score))
        at_recall = [_sparsest(recall, mine, wanted) for wanted in RECALLS]
        lines.append(Line(series, len(mine), hypervolume(recall.points[mine]), at_recall, scored, at_score))
    return sorted(lines, key=lambda line: -line.hypervolume)


def verdict(recall: Cloud, scores: Cloud | None, score: FullScore | None, gold: float) -> list[str]:
    """Who dominates, how sparse one can be at high recall, and what the score says."""
    sentences = [_dominance(recall, "recall"), *(_at_recall(recall, wanted) for wanted in RECALLS[-2:])]
    if scores is not None and score is not None:
        sentences.append(_dominance(scores, score.metric))
        sentences.append(_at_score(scores, score, gold))
    return [one for one in sentences if one]


def _dominance(cloud: Cloud, quality: str) -> str:
    rivals = [number for number, one in enumerate(cloud.series) if one.competes and len(cloud.of(number)[0])]
    if not rivals:
        return ""
    if len(rivals) == 1:
        return f"Only {cloud.series[rivals[0]].label} was measured, so there is nothing to compare it with."
    for number in rivals:
        if all(_covers(cloud, number, other) for other in rivals if other != number):
            return (
                f"{_capital(cloud.series[number].label)} dominates on sparsity and {quality}: no other method has a "
                "point that is better in one without being worse in the other."
            )
    which = cloud.which
    rival = np.flatnonzero(np.isin(which, rivals))
    common = rival[frontier(cloud.points[rival])]
    shares = sorted(((int((which[common] == number).sum()), number) for number in rivals), reverse=True)
    parts = [f"{count} of {cloud.series[number].label}" for count, number in shares if count]
    if len(parts) == 1:
        return (
            f"{_capital(cloud.series[shares[0][1]].label)} holds the whole common frontier of sparsity and {quality}."
        )
    return (
        f"No method dominates all others on sparsity and {quality}: the common frontier has "
        f"{_listed(_shortened(parts, 'points of other methods'))}."
    )


def _at_recall(cloud: Cloud, wanted: float) -> str:
    found = _ranked(cloud, wanted)
    if not found:
        best = float(np.nanmax(np.where(_competing(cloud), cloud.y, np.nan)))
        return f"No setting reaches a recall of {100 * wanted:g} %; the highest is {_percent(best)}."
    (first, number), *others = found
    text = (
        f"At a recall of {100 * wanted:g} % or more, the sparsest is {cloud.series[number].label}: it leaves out "
        f"{_percent(first.sparsity)} of the pairs ({cloud.settings[first.place].words() or NO_PARAMETERS})"
    )
    if others:
        text += "; next " + _listed([f"{cloud.series[one].label} {_percent(at.sparsity)}" for at, one in others[:2]])
    measured = [one for number, one in enumerate(cloud.series) if one.competes and len(cloud.of(number)[0])]
    missing = len(measured) - len(found)
    return text + (f". {missing} of the methods never get there." if missing else ".")


def _at_score(cloud: Cloud, score: FullScore, gold: float) -> str:
    found = _ranked(cloud, _enough(score))
    if not found:
        return f"No setting stays within {100 * TOLERANCE:g} % of the full model's {score.metric} of {score.value:.2f}."
    (first, number), *_ = found
    side = "above" if first.sparsity >= gold else "below"
    return (
        f"Within {100 * TOLERANCE:g} % of the full model's {score.metric} ({score.value:.2f}), the sparsest is "
        f"{cloud.series[number].label} at {_percent(first.sparsity)}, {side} the gold sparsity of {_percent(gold)}."
    )


def _ranked(cloud: Cloud, wanted: float) -> list[tuple[Reached, int]]:
    """The competing series that reach a quality, the sparsest first."""
    found = [
        (at, number)
        for number, one in enumerate(cloud.series)
        if one.competes and (at := _sparsest(cloud, cloud.of(number)[0], wanted)) is not None
    ]
    return sorted(found, key=lambda pair: -pair[0].sparsity)


def _sparsest(cloud: Cloud, places: np.ndarray, wanted: float) -> Reached | None:
    enough = places[cloud.y[places] >= wanted]
    if not len(enough):
        return None
    best = enough[cloud.x[enough].argmax()]
    return Reached(int(best), float(cloud.x[best]), None if cloud.cost is None else float(cloud.cost[best]))


def _enough(score: FullScore) -> float:
    return score.upwards(score.value) - TOLERANCE * abs(score.value)


def _covers(cloud: Cloud, number: int, other: int) -> bool:
    """Whether every point of the other one has a point here that is at least as good in both."""
    mine, theirs = cloud.of(number)[1], cloud.of(other)[1]
    sparser = cloud.x[mine][:, None] >= cloud.x[theirs]
    better = cloud.y[mine][:, None] >= cloud.y[theirs]
    return bool((sparser & better).any(0).all())


def _competing(cloud: Cloud) -> np.ndarray:
    return np.array([one.competes for one in cloud.series])[cloud.which]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _shortened(parts: Sequence[str], rest: str) -> list[str]:
    return [f"{parts[0].replace(' of ', ' points of ', 1)}", *parts[1:3], *([rest] if len(parts) > 3 else [])]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
