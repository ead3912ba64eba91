"""The answer of the first screen: who skips how much at a high recall, and what that costs inside the model; then how
much faster it makes attention, or, if nothing got faster, why.

Names of methods stand between asterisks. Brackets are bootstrap intervals, as in `verdict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.pareto import frontier
from ...finders import methods
from ..bench.entries import Entry
from ..sweep.bootstrap import Interval, interval
from ..sweep.settings import FULL, SOFTMAX
from ..sweep.summary import COSTED
from .bench import BenchResults
from .charts import Cloud
from .methods import Series
from .rankings import UNKNOWN, Ranked, ranking, reaching, rivals
from .timing import RunningTimes, Spot

__all__ = ["Answer", "answer", "leading", "shown_first"]


@dataclass(frozen=True)
class Answer:
    """What is found and what it costs, in one sentence, and how fast it is; each maybe empty. What they rest on."""

    finding: str
    cost: str
    speed: str
    rests_on: str

    @property
    def sentence(self) -> str:
        return " ".join(self._sentences)

    @property
    def _sentences(self) -> list[str]:
        found = "; ".join(filter(None, (self.finding, self.cost)))
        return [f"{said[:1].upper()}{said[1:]}." for said in (found, self.speed) if said]

    def to_page(self) -> dict[str, Any]:
        return {"sentences": self._sentences, "restsOn": self.rests_on}


def answer(
    recall: Cloud,
    scores: Cloud | None,
    bench: BenchResults | None = None,
    timing: RunningTimes | None = None,
    length: int | None = None,
) -> Answer:
    """What the points of a run say to someone who wants to know which method to use.

    length: of the sequences that were timed, if they have one.
    """
    found = reaching(recall, COSTED, COSTED)
    leader = found[0].series if found else None
    count = recall.measured.sequences
    n = [f"{count:,} sequence{'' if count == 1 else 's'} for recall"]
    n += [] if scores is None else [f"{scores.measured.sequences:,} inside the model"]
    rests_on = f"n = {', '.join(n)}; brackets hold the number in 95 of 100 bootstrap draws of them."
    return Answer(_finding(recall, found), _cost(scores, found), _speed(leader, bench, timing, length), rests_on)


def named(found: Sequence[Ranked]) -> list[Ranked]:
    """The first of each family: of the paper's methods, of those of others and of ours, the best."""
    families: dict[str, Ranked] = {}
    for one in found:
        kind = methods().get(one.series.method)
        families.setdefault("" if kind is None else kind.about.family, one)
    return list(families.values())


def leading(recall: Cloud) -> int:
    """The number of the series that the answer leads with; where it names none, of the one that finds most."""
    found = reaching(recall, COSTED, COSTED) or ranking(recall)
    return recall.series.index(found[0].series) if found else 0


def shown_first(recall: Cloud) -> list[int]:
    """The numbers of the series that charts show at first: those with a point on the common frontier of all that
    compete, those that the answer names, and the bound.
    """
    every = rivals(recall)
    rival = np.flatnonzero(np.isin(recall.which, every))
    ahead = set(recall.which[rival[frontier(recall.points[rival])]].tolist())
    keys = {one.series.key for one in named(reaching(recall, COSTED, COSTED))}
    return [
        number
        for number, one in enumerate(recall.series)
        if number in ahead or one.key in keys or (one.bound and len(recall.of(number)[0]))
    ]


def _finding(recall: Cloud, found: Sequence[Ranked]) -> str:
    if not found:
        mine = np.flatnonzero(np.isin(recall.which, rivals(recall)))
        if not len(mine) or not np.isfinite(recall.y[mine]).any():
            return "no method was measured"
        best = mine[np.nanargmax(recall.y[mine])]
        label = recall.series[recall.which[best]].label
        most = f"the most is {100 * recall.y[best]:.0f} %, by *{label}*"
        return f"no method finds {100 * COSTED:.0f} % of the pairs that the teacher uses; {most}"
    first, *others = named(found)
    text = (
        f"at {100 * COSTED:.0f} % recall *{first.series.label}* skips {_share(first.value, first.within)} of the pairs"
    )
    # What gets there only with all pairs skips none, and that is sure.
    more = [f"*{one.series.label}* {_share(one.value, one.within) if one.value else 'none'}" for one in others]
    return ", ".join([text, *more])


def _cost(scores: Cloud | None, found: Sequence[Ranked]) -> str:
    """The score of the leader at the same recall, against the model's own graphs there."""
    if scores is None:
        return "what that costs inside the model was not measured" if found else ""
    own = scores.measured.columns["recall"]
    first = next((one.series for one in found if one.series.key in scores.measured.methods), None)
    if first is None:
        return ""
    place = scores.measured.sparsest(first.key, COSTED)
    skips = f"skips {_share(scores.x[place], _drawn(scores, 'sparsity', place))}"
    if own[place] >= COSTED:
        said = f"inside the model *{first.label}* {skips} at {100 * own[place]:.0f} % recall"
    else:
        said = f"inside the model the highest recall of *{first.label}* is {100 * own[place]:.0f} %, which {skips}"
    return f"{said} and {_change(scores, place)}"


def _change(scores: Cloud, place: int) -> str:
    """How much worse the score gets: perplexity in percent, BLEU in points."""
    measured = scores.measured
    share = measured.relative

    def worse(value: Any, full: Any) -> Any:
        return measured.change(value, full) * (100 if share else -1)

    value = float(worse(measured.value[place], measured.full))
    draws = measured.draws
    within = UNKNOWN if draws is None else interval(worse(draws.value[:, place], draws.full))
    unit = " %" if share else ""
    if within.tells:
        low, high = sorted((abs(within.low), abs(within.high)))
        return f"{'costs' if value > 0 else 'gains'} {abs(value):.1f}{unit} [{low:.1f}, {high:.1f}] {measured.measure}"
    if max(map(abs, (value, *within))) < 0.05:
        return f"costs no {measured.measure}"
    # With the sign that the measure itself changes by: a BLEU that got worse got smaller.
    if not share:
        value, within = -value, Interval(-within.high, -within.low)
    return f"costs no {measured.measure} that could be told ({_signed(value)}{unit} {_brackets(within)})"


def _speed(leader: Series | None, bench: BenchResults | None, timing: RunningTimes | None, length: int | None) -> str:
    if bench is not None:
        return _benched(leader, bench)
    if timing is not None:
        return _timed(leader, timing, length)
    what = "it" if leader is None else f"*{leader.label}*"
    return f"how fast {what} is was not measured (`sparsefinder bench RUN` does)"


def _benched(leader: Series | None, bench: BenchResults) -> str:
    """At the longest length: the leader if it is faster, or else the fastest; or why none is."""
    length = bench.lengths[-1]
    rows = [row for row in bench.rows if not row["block"] and row["length"] == length and Entry.of_row(row).finds]
    if not rows:
        return ""
    fastest = max(rows, key=lambda row: row["to_softmax"])
    mine = [row for row in rows if leader is not None and row["method"] == leader.method]
    own = max(mine, key=lambda row: row["to_softmax"], default=None)
    if leader is not None and own is not None and own["sparsity"] == 0:
        # Fitted for the least time, a rule may turn out to be worth nothing at a length.
        return (
            f"at {length:,} tokens skipping does not pay yet: *{leader.label}*, set for the least time, keeps all "
            f"pairs, and attention, which is that of full entmax, is {_times(own)} as fast as softmax"
        )
    if leader is not None and own is not None and own["to_softmax_low"] > 1:
        return f"*{leader.label}* makes attention {_times(own)} as fast as softmax at {length:,} tokens"
    if fastest["to_softmax_low"] > 1:
        slow = ""
        if leader is not None and own is not None:
            slow = f"attention with *{leader.label}* is only {_times(own)} as fast as softmax at {length:,} tokens, "
        return f"{slow}the fastest, *{Entry.of_row(fastest).label}*, {_times(fastest)} as fast at {length:,}"
    softmax = next(row for row in bench.rows if row["length"] == length and row["method"] == SOFTMAX.method)
    kept = "" if fastest["sparsity"] is None else f" to {100 * (1 - fastest['sparsity']):.0f} % of the pairs"
    return (
        f"nothing got faster at {length:,} tokens: the fastest, *{Entry.of_row(fastest).label}*, takes "
        f"{_milliseconds(fastest['find'])} to find and {_milliseconds(fastest['attend'])} to attend{kept}, softmax "
        f"{_milliseconds(softmax['alone'])} for all"
    )


def _timed(leader: Series | None, timing: RunningTimes, length: int | None) -> str:
    """Of a recipe's own timings, which are of block variants: the fastest, and what it does to the model."""
    line = timing.line(SOFTMAX.method) or timing.line(FULL.method)
    spots = [(method, spot) for method in timing.methods for spot in timing.curve(method)]
    if line is None or not spots:
        return ""
    name = "softmax" if timing.line(SOFTMAX.method) is not None else "full entmax"
    method, spot = min(spots, key=lambda one: one[1].attention_seconds)
    ratio, blocks = line.attention_seconds / spot.attention_seconds, _blocks(method, spot)
    at = "" if length is None else f" at {length:,} tokens"
    first = "of what was timed"
    if leader is not None and leader.method not in timing.methods:
        first = f"*{leader.label}* was not timed (`sparsefinder bench RUN` does); {first}"
    if ratio > 1:
        score = _in_place_of(spot, timing.line(FULL.method), timing.score.metric)
        return f"{first}, {blocks} is the fastest: attention is {ratio:.1f}× as fast as {name}{at}{score}"
    return (
        f"{first} nothing got faster{at}: {blocks} takes {1 / ratio:.1f}× the time of {name} to find "
        f"{100 * (1 - spot.sparsity):.0f} % of the pairs and attend to them"
    )


def _in_place_of(spot: Spot, full: Spot | None, metric: str) -> str:
    """What a model's score is with the blocks, where both were scored."""
    if full is None or not np.isfinite([spot.score, full.score]).all():
        return ""
    return f", with {metric} {spot.score:.1f} in place of {full.score:.1f}"


def _blocks(method: str, spot: Spot) -> str:
    kind = methods().get(method)
    return f"*{method if kind is None else kind.about.label}* with {spot.blocks} block{'' if spot.blocks == 1 else 's'}"


def _times(row: Mapping[str, Any]) -> str:
    """How many times as fast, and the middle half of the turns."""
    return f"{row['to_softmax']:.1f}× ({row['to_softmax_low']:.1f}–{row['to_softmax_high']:.1f})"


def _drawn(cloud: Cloud, name: str, place: int) -> Interval:
    return UNKNOWN if cloud.draws is None else interval(getattr(cloud.draws, name)[:, place])


def _share(value: float, within: Interval) -> str:
    if not np.isfinite(within.low):
        return f"{100 * value:.0f} % [?]"
    # As many digits as the interval leaves.
    digits = 0 if within.high - within.low >= 0.02 else 1
    return f"{100 * value:.{digits}f} % [{100 * within.low:.{digits}f}, {100 * within.high:.{digits}f}]"


def _signed(value: float) -> str:
    said = f"{value:+.1f}".replace("-", "−")
    return "0.0" if said in ("+0.0", "−0.0") else said


def _brackets(within: Interval) -> str:
    if not np.isfinite(within.low):
        return "[?]"
    return f"[{_signed(within.low)}, {_signed(within.high)}]"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
