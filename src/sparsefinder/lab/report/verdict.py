"""What the points say, in sentences computed from them: each with how many sequences it rests on, and how sure it is.

Brackets are bootstrap intervals: a number lies in them in 95 of 100 draws of the sequences. A difference whose interval
holds zero is not called one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.pareto import frontier
from ..sweep.bootstrap import Interval, interval
from ..sweep.measured_setting import NO_PARAMETERS
from ..sweep.points import Floats
from ..sweep.summary import RECALLS
from .charts import Cloud, FullScore
from .rankings import TOLERANCE, UNKNOWN, Ranked, covers, enough, ranking, reaching, rivals

__all__ = ["verdict"]

# A claim is made if it holds in this share of the draws.
SURE = 0.95
# So many methods behind the first are named.
NEXT = 2


def verdict(recall: Cloud, scores: Cloud | None, score: FullScore | None) -> list[str]:
    """Who is ahead, who dominates, how sparse one can be at high recall, and what the score says."""
    ask = "Which method finds the teacher's pairs, whatever the sparsity?"
    sentences = [_first(recall, ask, "recall"), _dominance(recall, "recall")]
    sentences += [_at_recall(recall, wanted) for wanted in RECALLS[-2:]]
    if scores is not None and score is not None:
        ask = f"Which method keeps the model's {score.metric}, whatever the sparsity?"
        sentences += [_first(scores, ask, score.metric), _agreement(recall, scores, score.metric)]
        sentences += [_dominance(scores, score.metric), _at_score(scores, score)]
    return [one for one in sentences if one]


def _first(cloud: Cloud, ask: str, quality: str) -> str:
    """The ranking by hypervolume."""
    found = ranking(cloud)
    if len(found) < 2:
        return ""
    first = found[0]
    text = (
        f"{ask} By hypervolume of sparsity and {quality}, over {_count(cloud)}, {first.series.label}: "
        f"{first.value:.3f} {_brackets(first.within)}"
    )
    return f"{text}; {_behind(found[1:], lambda one: f'{one:.3f}')}."


def _behind(others: Sequence[Ranked], number: Callable[[float], str], unit: str = "") -> str:
    """Those after the first: how far behind, or that nothing tells them apart."""
    parts = []
    for one in others[:NEXT]:
        apart, within = number(one.behind.value), _brackets(one.behind.within, number)
        tells = one.behind.within.tells
        said = f"{apart}{unit} {within} behind" if tells else f"not told apart ({apart}{unit} {within} behind)"
        parts.append(f"{one.series.label} {said}")
    return "next " + _listed(parts)


def _agreement(recall: Cloud, scores: Cloud, metric: str) -> str:
    """Whether recall and score put methods in the same order: pairs of which one is ahead here and the other there."""
    ranked = [ranking(cloud) for cloud in (recall, scores)]
    labels = [[one.series.label for one in found] for found in ranked]
    shared = [label for label in labels[0] if label in labels[1]]
    if len(shared) < 2:
        return ""
    n = f"n = {recall.measured.sequences:,} and {scores.measured.sequences:,}"
    pairs = [(one, other) for place, one in enumerate(shared) for other in shared[place + 1 :]]
    turned = [pair for pair in pairs if labels[1].index(pair[1]) < labels[1].index(pair[0])]
    sure = [pair for pair in pairs if all(_apart(cloud, *pair).tells for cloud in (recall, scores))]
    if not turned:
        return (
            f"Recall and {metric} put the {len(shared)} methods that have both in the same order; {len(sure)} of "
            f"{len(pairs)} pairs of them are told apart in both ({n})."
        )
    differ = [
        f"{one} is ahead of {other} in recall and behind in {metric}" for one, other in turned if (one, other) in sure
    ]
    if not differ:
        return (
            f"Recall and {metric} put the {len(shared)} methods that have both in different orders, but by differences "
            f"within their intervals ({n})."
        )
    return f"The two rankings disagree, since the questions differ: {_listed(differ[:NEXT])} ({n})."


def _apart(cloud: Cloud, one: str, other: str) -> Interval:
    """The interval of how much larger the hypervolume of one method is than that of another, by their labels."""
    keys = {series.label: series.key for series in cloud.series}
    first, second = (cloud.measured.drawn_volume(keys[label]) for label in (one, other))
    return UNKNOWN if first is None or second is None else interval(first - second)


def _dominance(cloud: Cloud, quality: str) -> str:
    found = rivals(cloud)
    if not found:
        return ""
    if len(found) == 1:
        return f"Only {cloud.series[found[0]].label} was measured, so there is nothing to compare it with."
    for number in found:
        label = cloud.series[number].label
        mine, theirs = (
            np.flatnonzero(np.isin(cloud.which, some)) for some in ([number], [one for one in found if one != number])
        )
        if covers(cloud.points, mine, theirs):
            share = _holds(cloud, lambda points, mine=mine, theirs=theirs: covers(points, mine, theirs))  # type: ignore[misc]
            said = f"({_share(share)}; n = {cloud.measured.sequences:,})"
            if share is None or share < SURE:
                return (
                    f"On sparsity and {quality}, no other method has a point that is better than {label} in one "
                    f"without being worse in the other, but that is not sure {said}."
                )
            return (
                f"{_capital(label)} dominates on sparsity and {quality}: no other method has a point that is better in "
                f"one without being worse in the other {said}."
            )
    return _common_frontier(cloud, found, quality)


def _common_frontier(cloud: Cloud, found: Sequence[int], quality: str) -> str:
    """How many points of each method are on the frontier of all."""
    rival = np.flatnonzero(np.isin(cloud.which, found))

    def counts(points: Floats) -> Floats:
        ahead = rival[frontier(points[rival])]
        return np.bincount(cloud.which[ahead], minlength=len(cloud.series)).astype(np.float64)

    now, draws = counts(cloud.points), _draws(cloud)
    drawn = None if draws is None else np.stack([counts(points) for points in draws])
    parts: list[str] = []
    for number in sorted(found, key=lambda one: -now[one]):
        if now[number]:
            within = UNKNOWN if drawn is None else interval(drawn[:, number])
            parts.append(f"{now[number]:.0f} {_brackets(within, '{:.0f}'.format)} of {cloud.series[number].label}")
    return (
        f"No method dominates all others on sparsity and {quality}: of the {now.sum():.0f} points on the common "
        f"frontier, {_listed([*parts[:3], *(['the rest of other methods'] if len(parts) > 3 else [])])} "
        f"(n = {cloud.measured.sequences:,})."
    )


def _at_recall(cloud: Cloud, wanted: float) -> str:
    found, every = reaching(cloud, wanted, wanted), rivals(cloud)
    n = f"n = {cloud.measured.sequences:,}"
    if not found:
        mine = np.flatnonzero(np.isin(cloud.which, every))
        if not len(mine):
            return ""
        best = float(np.nanmax(cloud.y[mine]))
        within = UNKNOWN if cloud.draws is None else interval(np.nanmax(cloud.draws.value[:, mine], -1))
        highest = f"{_percent(best)} {_brackets(within, _points)}"
        return f"No setting reaches a recall of {100 * wanted:g} %; the highest is {highest} ({n})."
    first, *others = found
    assert first.place is not None
    text = (
        f"At a recall of {100 * wanted:g} % or more, the sparsest is {first.series.label}: it leaves out "
        f"{_percent(first.value)} {_brackets(first.within, _points)} of the pairs "
        f"({cloud.settings[first.place].words() or NO_PARAMETERS}; {n})"
    )
    text += f"; {_behind(others, _points, ' points')}" if others else ""
    missing = len(every) - len(found)
    return text + (f". {missing} of the methods never get there." if missing else ".")


def _at_score(cloud: Cloud, score: FullScore) -> str:
    draws, gold = cloud.draws, cloud.measured.gold
    full = cloud.measured.upwards(np.zeros(0) if draws is None else draws.full)
    found = reaching(cloud, enough(score.upwards(score.value)), enough(full))
    of_full = "" if draws is None else f" {_brackets(interval(draws.full), '{:.2f}'.format)}"
    n = f"n = {cloud.measured.sequences:,}"
    if not found:
        return (
            f"No setting stays within {100 * TOLERANCE:g} % of the full model's {score.metric} of "
            f"{score.value:.2f}{of_full} ({n})."
        )
    first = found[0]
    above = _above_gold(cloud, first, score)
    side = ("above" if first.value >= gold else "below") if above.tells else "not told apart from"
    return (
        f"Within {100 * TOLERANCE:g} % of the full model's {score.metric} ({score.value:.2f}{of_full}; {n}), the "
        f"sparsest is {first.series.label} at {_percent(first.value)} {_brackets(first.within, _points)}, {side} the "
        f"gold sparsity of {_percent(gold)} on the same sequences "
        f"({_points(first.value - gold)} {_brackets(above, _points)} points apart)."
    )


def _above_gold(cloud: Cloud, first: Ranked, score: FullScore) -> Interval:
    """The interval of how much sparser than gold graphs the sparsest is that keeps the score."""
    draws = cloud.draws
    if draws is None:
        return UNKNOWN
    mine = cloud.measured.methods[first.series.key]
    kept = cloud.measured.upwards(draws.value[:, mine]) >= enough(cloud.measured.upwards(draws.full))[:, None]
    return interval(np.where(kept, draws.sparsity[:, mine], 0.0).max(-1) - draws.gold)


def _draws(cloud: Cloud) -> Floats | None:
    """The points of each draw, as those of the cloud: [draws, points, 2]."""
    draws = cloud.draws
    return None if draws is None else np.stack([draws.sparsity, cloud.measured.upwards(draws.value)], -1)


def _holds(cloud: Cloud, claim: Callable[[Floats], bool]) -> float | None:
    """The share of draws in which a claim holds; None if there are no draws."""
    draws = _draws(cloud)
    return None if draws is None else float(np.mean([claim(points) for points in draws]))


def _count(cloud: Cloud) -> str:
    several = len([one for one in cloud.settings if one.method in {cloud.series[n].method for n in rivals(cloud)}])
    return f"{several:,} settings and n = {cloud.measured.sequences:,} sequences"


def _share(share: float | None) -> str:
    return "no interval" if share is None else f"in {100 * share:.0f} % of draws"


def _brackets(within: Interval, number: Callable[[float], str] = "{:.3f}".format) -> str:
    """An interval; of one sequence there is none."""
    if not np.isfinite(within.low):
        return "[?]"
    return f"[{number(within.low)}, {number(within.high)}]".replace("-", "−")


def _points(share: float) -> str:
    """A share in percent, without the sign."""
    return f"{100 * share:.1f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
