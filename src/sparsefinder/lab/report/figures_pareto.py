"""Sparsity–recall and sparsity–accuracy trade-offs of all methods, averaged over layers and heads."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .charts import Cloud, dash
from .content import Content
from .methods import Series

__all__ = ["legend_entries", "line_look", "pareto_figure"]


def pareto_figure(content: Content) -> Figure | None:
    """Recall on the left, the score on the right; the gold sparsity dashed, the full model a star."""
    recall, scores, score = content.recall, content.scores, content.score
    if recall is None:
        return None
    panels = 1 if scores is None else 2
    figure = Figure(figsize=(3.6 * panels, 2.9), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _panel(axes[0], recall, 1.0)
    axes[0].set(ylabel="Recall")
    if scores is not None and score is not None:
        full = score.upwards(score.value)
        _panel(axes[1], scores, full)
        axes[1].set(ylabel=score.axis.capitalize() if score.lower_is_better else score.axis)
        if score.floor is not None:
            lowest = max(float(np.nanmin(scores.y)), score.floor)
            room = 0.05 * (full - lowest)
            axes[1].set_ylim(lowest - room, full + room)
    figure.legend(handles=legend_entries(content.series), loc="outside upper center", ncols=4 if panels > 1 else 2)
    return figure


def line_look(series: Series) -> dict[str, object]:
    """How the line of a series is drawn."""
    face = series.style.light if series.rank == 0 else "white"
    return {
        "color": series.style.light, "marker": series.style.marker, "linestyle": dash(series.rank),
        "markersize": 4.5, "markeredgewidth": 0.8,
        "markerfacecolor": face,
    }  # fmt: skip


def legend_entries(series: list[Series]) -> list[Line2D]:
    """A line of each series, and the star."""
    lines = [Line2D([], [], label=one.label, **line_look(one)) for one in series]  # type: ignore[arg-type]
    star = Line2D([], [], label="full entmax", marker="*", linestyle="none", color="black", markersize=9)
    return [*lines, star]


def _panel(axes: Axes, cloud: Cloud, full: float) -> None:
    gold = cloud.measured.gold
    for number, series in enumerate(cloud.series):
        every, best = cloud.of(number)
        if not len(every):
            continue
        marker, colour = series.style.marker, series.style.light
        axes.scatter(cloud.x[every], cloud.y[every], s=6, marker=marker, color=colour, alpha=0.2, linewidths=0.5)
        every_so_many = max(1, len(best) // 14)
        axes.plot(cloud.x[best], cloud.y[best], markevery=every_so_many, **line_look(series))  # type: ignore[arg-type]
    axes.axvline(gold, color="black", linestyle="--", linewidth=0.9, zorder=1)
    axes.plot([gold], [full], marker="*", color="black", markersize=11, markeredgecolor="white", zorder=5)
    axes.set(xlabel="Sparsity")
    axes.grid(visible=True)
