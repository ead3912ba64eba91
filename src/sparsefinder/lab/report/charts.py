"""The Pareto charts: points averaged over all heads, the model's score on predicted graphs, and frontiers of each head.

What a chart shows is worked out here, once, for the page and for print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...core.pareto import frontier, frontiers
from ..sweep.measured import Draws, Measured
from ..sweep.measured_setting import NO_PARAMETERS, MeasuredSetting, extra_words, own_words
from ..sweep.points import Floats, Ints
from .encoding import column
from .methods import Series
from .points import Head, RecallPoints

__all__ = ["Cloud", "FullScore", "HeadFrontiers", "Range", "compared_at", "head_frontiers", "roomy"]

# The windows that the paper fixes in its figures of single heads: 11 for translation (Fig. 8 and 9), 25 for masked
# language models (Fig. 10). That of the other task is taken where a run has only that.
FIXED_WINDOWS = {"translation": (11, 25), "masked-lm": (25, 11)}
# Ratios go to the page in steps of 1/65535.
STEPS = 65535
# The page's slider of sparsity has so many steps, and of a head's frontier at most twice as many points go there.
SLIDER_STEPS = 100
THINNED = 2 * SLIDER_STEPS
# Dashes by the rank of a series, as matplotlib writes them.
DASHES = ("-", "--", ":", "-.")
# Numbers that 32 bits can hold.
FINITE = np.finfo(np.float32).min, np.finfo(np.float32).max
# What is told of a point besides its place.
TOLD = (
    "recall", "precision", "full_recall", "empty_rows", "pooled_sparsity", "pooled_recall", "pooled_precision",
    "decoding_sparsity", "mass_missed", "far_perplexity",
)  # fmt: skip
# Where a model falls apart its perplexity is astronomic; charts end at so many times the full model's.
WORST_SHOWN = 3


Range = tuple[float, float]


@dataclass(frozen=True)
class FullScore:
    """The score of the full entmax model, and which way is up."""

    metric: str
    value: float
    lower_is_better: bool
    # How many sequences it was measured on, and what else was measured on them.
    sequences: int = 0
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def axis(self) -> str:
        """What the axis shows; where less is better, it is drawn upside down."""
        return f"{self.metric} (lower is better)" if self.lower_is_better else self.metric

    def upwards(self, value: float) -> float:
        return -value if self.lower_is_better else value

    def to_page(self) -> dict[str, Any]:
        return {
            "metric": self.metric, "value": self.value, "lower": self.lower_is_better, "axis": self.axis,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of one chart: x is sparsity, y what is better upwards; each of one series and with its setting."""

    series: Sequence[Series]
    measured: Measured

    @property
    def settings(self) -> Sequence[MeasuredSetting]:
        return self.measured.settings

    @property
    def x(self) -> Floats:
        return self.measured.sparsity

    @cached_property
    def y(self) -> Floats:
        return self.measured.upwards(self.measured.value)

    @property
    def draws(self) -> Draws | None:
        return self.measured.draws

    @cached_property
    def which(self) -> Ints:
        """The number of each point's series."""
        place = {one.key: number for number, one in enumerate(self.series)}
        return np.array([place[one.method, one.inputs] for one in self.settings], dtype=np.int64)

    @cached_property
    def points(self) -> Floats:
        return np.stack([self.x, self.y], -1)

    def of(self, number: int) -> tuple[Ints, Ints]:
        """The places of all points of a series, and of those on its frontier, from the densest to the sparsest."""
        mine = np.flatnonzero(self.which == number)
        return mine, mine[frontier(self.points[mine])]

    @cached_property
    def limits(self) -> tuple[Range, Range]:
        """From where to where sparsity and quality are drawn, on the page and in print, upwards being better."""
        full, gold = float(self.measured.upwards(np.array(self.measured.full))), self.measured.gold
        low, high = roomy([*self.x, gold])
        floor = WORST_SHOWN * full if self.measured.better == "lower" else -np.inf
        bottom, top = roomy([*self.y[self.y >= floor], full])
        return (max(0.0, low), min(1.01, high)), (max(bottom, 0.0) if full >= 0 else bottom, top)

    def bands(self, number: int) -> tuple[Ints, Floats] | None:
        """The places of a series' frontier and where their values lie in 95 of 100 draws, upwards being better."""
        within = self.measured.within
        if within is None:
            return None
        _, best = self.of(number)
        return best, np.sort(self.measured.upwards(within[:, best]), axis=0)

    def to_page(self) -> dict[str, Any]:
        """All points, also such as cannot be drawn: others speak of settings by their place."""
        measured, settings = self.measured, self.settings
        own = sorted({(one.method, one.own) for one in settings})
        extra = sorted({(one.window, one.globals) for one in settings})
        own_place, extra_place = ({one: place for place, one in enumerate(each)} for each in (own, extra))
        told = [name for name in TOLD if name in measured.columns and np.isfinite(measured.columns[name]).any()]
        return {
            "gold": measured.gold if np.isfinite(measured.gold) else None,
            "sequences": measured.sequences,
            "series": column(self.which, "u1"),
            # A setting in words is what these two say; few words, since settings are all combinations of them.
            "own": column([own_place[one.method, one.own] for one in settings], "u2"),
            "extra": column([extra_place[one.window, one.globals] for one in settings], "u2"),
            "ownWords": [own_words(*one) for one in own],
            "extraWords": [", ".join(extra_words(*one)) for one in extra],
            "noWords": NO_PARAMETERS,
            "x": column(self.x, "f4"),
            # A perplexity that does not fit is far below any chart.
            "y": column(self.y.clip(*FINITE), "f4"),
            "best": column(measured.best, "u1"),
            "limits": self.limits,
            "full": float(measured.upwards(np.array(measured.full))),
            # Intervals of the points on the frontiers, in the order of their places.
            "within": None
            if measured.within is None
            else [
                column(each.clip(*FINITE), "f4")
                for each in np.sort(self.measured.upwards(measured.within[:, measured.best]), axis=0)
            ],
            "told": {name: column(measured.columns[name], "f4") for name in told},
        }


@dataclass(frozen=True, eq=False)
class HeadFrontiers:
    """The frontier of each series in each head: over all windows (`window` is None), or with a fixed one."""

    points: RecallPoints
    series: Sequence[Series]
    window: int | None
    rows: Ints
    which: Ints

    def of(self, head: int, number: int) -> Ints:
        """The rows of the points of one series in one head, from the densest to the sparsest."""
        line = head * len(self.series) + number
        start, stop = np.searchsorted(self._lines, [line, line + 1])
        return self.rows[start:stop]

    def to_page(self) -> dict[str, Any]:
        points = self.points
        kept = self._thinned()
        rows = self.rows[kept]
        return {
            "window": self.window,
            "steps": STEPS,
            "head": column(points.head[rows], "u2"),
            "series": column(self.which[kept], "u1"),
            "setting": column(points.setting[rows], "u4" if len(points.settings) > STEPS else "u2"),
            "x": column(np.rint(points.sparsity[rows].clip(0, 1) * STEPS), "u2"),
            "y": column(np.rint(points.recall[rows].clip(0, 1) * STEPS), "u2"),
        }

    def _thinned(self) -> Ints:
        """Of each line the first point in every step of sparsity: the one of the highest recall.

        What the page says of any whole step, as its slider asks for, stays exact.
        """
        step = np.floor(self.points.sparsity[self.rows] * THINNED + 1e-9).astype(np.int64)
        return np.flatnonzero(np.diff(self._lines * (THINNED + 1) + step, prepend=-1))

    @cached_property
    def _lines(self) -> Ints:
        """A number for the head and series of each row, in whose order they are."""
        return self.points.head[self.rows] * len(self.series) + self.which


def head_frontiers(cloud: Cloud, points: RecallPoints, window: int | None = None) -> HeadFrontiers:
    """The frontiers of all heads, of all settings or of those with one window; the cloud is that of the points."""
    rows = np.arange(len(points.setting))
    if window is not None:
        # The window baseline is a window of every size: a single one would be a single point.
        fits = np.array([one.window == window or one.method == "window" for one in points.settings])
        rows = rows[fits[points.setting]]
    which = cloud.which[points.setting[rows]]
    group = points.head[rows] * len(cloud.series) + which
    best = frontiers(np.stack([points.sparsity[rows], points.recall[rows]], -1), group)
    return HeadFrontiers(points, cloud.series, window, rows[best], which[best])


def fixed_window(points: RecallPoints, task: str) -> int | None:
    """The window to fix in charts of single heads: the paper's for the task if the run has it, or the most frequent."""
    found = Counter(one.window for one in points.settings if one.window and one.method != "window")
    if not found:
        return None
    return next((window for window in FIXED_WINDOWS.get(task, ()) if window in found), found.most_common(1)[0][0])


def head_names(heads: Sequence[Head]) -> list[str]:
    """Heads in words; their kind only where there are several."""
    several = len({kind for kind, _, _ in heads}) > 1
    return [(f"{kind}, " if several else "") + f"layer {layer}, head {number}" for kind, layer, number in heads]


def roomy(values: Sequence[float], room: float = 0.04) -> Range:
    """A range with a little room around the values that are numbers."""
    real = [float(one) for one in values if np.isfinite(one)] or [0.0, 1.0]
    low, high = min(real), max(real)
    more = room * (high - low or abs(high) or 1.0)
    return low - more, high + more


def compared_at(cloud: Cloud) -> float:
    """The sparsity that heads are compared at first: a whole step of 5 % a little below that of the gold graphs."""
    gold = cloud.measured.gold
    return min(0.95, max(0.5, round(20 * gold - 1) / 20)) if np.isfinite(gold) else 0.5


def dash(rank: int) -> str:
    """How the line of a series of this rank is dashed."""
    return DASHES[min(rank, len(DASHES) - 1)]
