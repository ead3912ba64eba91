"""The chart of scores: how the model's score changes with what is skipped, a panel for each teacher."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from ...core.pareto import frontier
from ..scores import Cost, Teacher
from ..sweep.measured import Key
from .charts import dash
from .figures_look import GREY, README, between, line_look, skipped_axis, write_for_readme
from .methods import series_of

__all__ = ["draw_panel", "write_chart"]

# Perplexity in percent of the full model's, and points of BLEU: as far as so much all is drawn to scale, and beyond it
# every factor of ten is as wide.
PERCENT, POINTS = 1.0, 0.5
PERCENT_TICKS = (-1, 0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
POINTS_TICKS = (1, 0, -1, -2, -5, -10, -20, -50)


@dataclass(frozen=True)
class Line:
    """A line of the chart: a method, and in how many dimensions it compares tokens, where there are several."""

    key: Key
    rank: int
    label: str
    look: dict[str, Any]

    def of(self, teacher: Teacher) -> list[Cost]:
        return [one for one in teacher.costs if one.key == self.key and _rank(one) == self.rank]


def write_chart(found: Sequence[Teacher], path: Path) -> None:
    """Write the frontiers of sparsity and score as an SVG for a README, the best method of the first teacher first."""
    lines = _lines(found)
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(4.1 * len(found) + 2.4, 4.4), layout="constrained")
        for axes, teacher in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
            draw_panel(axes, teacher, lines)
        write_for_readme(figure, path)


def _lines(found: Sequence[Teacher]) -> list[Line]:
    """The same for all panels, whose legend is one."""
    costs = [one for teacher in found for one in teacher.costs]
    series = {one.key: one for one in series_of(one.key for one in costs)}
    lines = []
    for key in dict.fromkeys(one.key for one in costs):
        own = series[key]
        ranks = sorted({_rank(one) for one in costs if one.key == key})
        for place, rank in enumerate(ranks if own.competes else []):
            look = {"color": between(own.style), "linestyle": dash(own.rank + place), "markerfacecolor": "none"}
            label = f"{own.label}, r = {rank}" if len(ranks) > 1 else own.label
            lines.append(Line(key, rank, label, {**line_look(own), **look}))
    return lines


def _rank(cost: Cost) -> int:
    """In how many dimensions tokens are compared, where a setting says it: more of them cost more to compare."""
    return int(json.loads(cost.setting.own or "{}").get("r") or 0)


def draw_panel(axes: Axes, teacher: Teacher, lines: Sequence[Line]) -> None:
    """What settings skip and cost, of one teacher."""
    full, costs = teacher.full, teacher.costs
    scale, unit = (100, PERCENT) if teacher.relative else (1, POINTS)
    axes.set_yscale("symlog", linthresh=unit, linscale=0.6)
    for line in lines:
        _draw(axes, line, line.of(teacher), scale, full.better == "lower")
    axes.axhline(0, color=GREY, linestyle=":", linewidth=1.2, label="all pairs")
    axes.axvline(full.gold, color=GREY, linestyle="--", linewidth=1.2, label="as sparse as the teacher")
    ticks = PERCENT_TICKS if teacher.relative else POINTS_TICKS
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda change, _: f"{change:+g}".replace("-", "−") if change else "0")
    changes = [scale * change for one in costs for change in one.changes if np.isfinite(change)]
    # What costs more than the last tick says is of no use to anybody, and off the chart.
    worst, best = (ticks[-1], -unit) if teacher.relative else (unit, ticks[-1])
    axes.set_ylim(max(best, min(-unit, *changes)) * 1.1, min(worst, max(unit, *changes)) * 1.2)
    if teacher.relative:
        axes.invert_yaxis()
    words = f"{full.measure}, {'% above that of all pairs' if teacher.relative else 'points of difference'}"
    axes.set(title=teacher.name, ylabel=words)
    skipped = [one.skipped for one in costs]
    most = max(*skipped, full.gold)
    skipped_axis(axes, max(0.0, min(skipped) - 0.02), most + (1 - most) / 4)


def _draw(axes: Axes, line: Line, costs: Sequence[Cost], scale: float, lower: bool) -> None:
    """The frontier of a method by the mean of its fits, and from the least to the most of them."""
    skipped = np.array([one.skipped for one in costs])
    changes, least, most = (scale * np.array([pick(one.changes) for one in costs]) for pick in (fmean, min, max))
    best = frontier(np.stack([skipped, -changes if lower else changes], -1))
    axes.plot(skipped[best], changes[best], label=line.label, **line.look)
    axes.vlines(skipped[best], least[best], most[best], color=line.look["color"], alpha=0.5, linewidth=3)
