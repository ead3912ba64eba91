"""Sparsity–recall and sparsity–accuracy trade-offs, averaged over layers and heads: the page's charts, on its axes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...errors import InputError
from ..folder import RunFolder
from ..sweep.measured import measured_recall
from .answer import shown_first
from .charts import Cloud, FullScore
from .content import Content
from .figures_look import (
    COLUMN,
    GREY,
    README,
    between,
    legend_columns,
    legend_entries,
    line_look,
    percent,
    score_axis,
    write_for_readme,
)
from .methods import series_of

__all__ = ["pareto_figure", "write_pareto"]

OTHERS = "#9a9a9a"


def pareto_figure(content: Content) -> Figure | None:
    """Recall above, the score below; lines of the methods that the page shows at first, the points of all."""
    recall, scores, score = content.recall, content.scores, content.score
    if recall is None:
        return None
    shown = shown_first(recall)
    panels = 1 if scores is None else 2
    figure = Figure(figsize=(COLUMN, 2.35 * panels + 0.75), layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    _panel(axes[0], recall, shown)
    axes[0].set(ylabel="Recall (% of gold pairs found)", ylim=recall.limits[1])
    percent(axes[0].yaxis)
    if scores is not None and score is not None:
        _panel(axes[1], scores, shown, score)
        score_axis(axes[1], score, scores.limits[1])
    axes[-1].set_xlabel("Sparsity (% of pairs skipped)")
    entries = legend_entries(recall.series[number] for number in shown)
    if len(shown) < len(recall.series):
        entries.append(Line2D([], [], label="other methods", marker=".", linestyle="none", color=OTHERS))
    figure.legend(
        handles=entries,
        loc="outside upper center",
        ncols=legend_columns(entries, COLUMN, 3),
        columnspacing=1.0,
        handlelength=1.8,
    )
    return figure


def write_pareto(folder: RunFolder, path: Path, only: Collection[str] = ()) -> None:
    """Write the frontiers of sparsity and recall as an SVG for a README: of all methods, or of `only` these."""
    measured = measured_recall(folder)
    if measured is None:
        raise InputError("chart", "a run without a sweep of recall", "one that `sparsefinder sweep` was run on")
    cloud = Cloud(series_of(measured.methods), measured)
    known = {series.method for series in cloud.series}
    for name in only:
        if name not in known:
            raise InputError("only", name, f"one of {', '.join(sorted(known))}")
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(8.3, 4.4), layout="constrained")
        axes = figure.subplots()
        # The legend has the best first.
        for number in sorted(range(len(cloud.series)), key=lambda number: -measured.volume(cloud.series[number].key)):
            series, (_, best) = cloud.series[number], cloud.of(number)
            if not len(best) or (only and series.method not in only) or not series.competes:
                continue
            look = {**line_look(series), "color": between(series.style), "markerfacecolor": "none"}
            axes.plot(cloud.x[best], cloud.y[best], label=series.label, markevery=max(1, len(best) // 14), **look)
        axes.axvline(measured.gold, color=GREY, linestyle="--", linewidth=1.2, label="as sparse as the teacher")
        axes.set(
            xlabel="pairs skipped, %", ylabel="pairs that matter found, %", xlim=cloud.limits[0], ylim=cloud.limits[1]
        )
        percent(axes.xaxis, axes.yaxis)
        write_for_readme(figure, path)


def _panel(axes: Axes, cloud: Cloud, shown: Collection[int], score: FullScore | None = None) -> None:
    gold, full, value = cloud.measured.gold, cloud.measured.full, cloud.measured.value
    for number, series in enumerate(cloud.series):
        every, best = cloud.of(number)
        if not len(every):
            continue
        colour = series.style.light if number in shown else OTHERS
        axes.scatter(
            cloud.x[every], value[every], s=5, marker=series.style.marker, color=colour, alpha=0.2, linewidths=0.4
        )
        if number in shown:
            within = cloud.measured.within
            if within is not None:
                axes.fill_between(cloud.x[best], *within[:, best], color=colour, alpha=0.18, linewidth=0)
            axes.plot(cloud.x[best], value[best], markevery=max(1, len(best) // 14), **line_look(series))
    axes.axvline(gold, color="black", linestyle="--", linewidth=0.9, zorder=1)
    if score is not None:
        axes.axhline(full, color="black", linestyle=":", linewidth=0.9, zorder=1)
    axes.plot([gold], [full], marker="*", color="black", markersize=10, markeredgecolor="white", zorder=5)
    axes.set_xlim(cloud.limits[0])
    percent(axes.xaxis)
    axes.grid(visible=True)
