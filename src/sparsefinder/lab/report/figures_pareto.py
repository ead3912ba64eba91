"""Sparsity–recall and sparsity–accuracy trade-offs, averaged over layers and heads: the page's charts, on its axes."""

from __future__ import annotations

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .answer import shown_first
from .charts import Cloud, FullScore
from .content import Content
from .figures_look import COLUMN, legend_columns, legend_entries, line_look, percent, score_axis

__all__ = ["pareto_figure"]

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
