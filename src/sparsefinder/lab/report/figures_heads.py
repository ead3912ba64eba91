"""Sparsity–recall trade-offs of every layer and head with a fixed window, and recall of every head at one sparsity."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .charts import HeadFrontiers, dash
from .content import Content
from .figures_pareto import legend_entries

__all__ = ["heads_figure", "heatmap_figure"]


# Recall is compared at this sparsity.
WANTED = 0.9


def heads_figure(content: Content) -> Figure | None:
    """One small chart for each head: a row per layer, a column per head."""
    points = content.points
    if points is None:
        return None
    found = content.heads[-1]
    rows, columns = _shape(found)
    figure, axes = _panels(found)
    # The same limits for all, set by hand: shared axes look at all panels again with every line.
    lowest = [max(0.0, float(values[found.rows].min()) - 0.03) for values in (points.sparsity, points.recall)]
    gold = points.gold_by_head
    for place, (kind, layer, head) in enumerate(points.heads):
        panel = axes[rows.index((kind, layer)), columns.index(head)]
        _draw_frontiers(panel, found, place, gold[place])
        panel.set(xlim=(lowest[0], 1), ylim=(lowest[1], 1.04))
        panel.label_outer()
    kinds = len({kind for kind, _ in rows})
    for row, (kind, layer) in enumerate(rows):
        axes[row, 0].set_ylabel(f"{kind} {layer}" if kinds > 1 else f"layer {layer}", fontsize=7)
    for column, head in enumerate(columns):
        axes[0, column].set_title(f"head {head}", fontsize=7)
    return figure


def _panels(found: HeadFrontiers) -> tuple[Figure, Any]:
    """A figure with room for all heads, its titles and its legend; and the panels."""
    rows, columns = _shape(found)
    width = min(7.2, 1.5 * len(columns) + 1.5)
    across = min(4, max(1, int(width // 1.7)))
    above = 0.17 * -(-len(found.series) // across) + 0.4
    height = 0.85 * width / len(columns) * len(rows) + above + 0.5
    # Margins in inches: a layout that finds them by itself takes a minute for as many panels as a large model has.
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(
        left=0.65 / width, right=1 - 0.05 / width, top=1 - above / height, bottom=0.5 / height, wspace=0.15, hspace=0.15
    )
    window = "" if found.window is None else f" (window {found.window})"
    figure.supxlabel(f"Sparsity{window}", fontsize=8, y=0.08 / height, va="bottom")
    figure.supylabel("Recall", fontsize=8, x=0.05 / width, ha="left")
    figure.legend(handles=legend_entries(list(found.series))[:-1], loc="upper center", ncols=across, fontsize=7)
    return figure, figure.subplots(len(rows), len(columns), squeeze=False)


def _draw_frontiers(panel: Axes, found: HeadFrontiers, head: int, gold: float) -> None:
    """The frontier of each series in one head, and its gold sparsity."""
    points = found.points
    for number, series in enumerate(found.series):
        best = found.of(head, number)
        panel.plot(
            points.sparsity[best], points.recall[best], color=series.style.light,
            linestyle=dash(series.rank), linewidth=0.8, marker=series.style.marker, markersize=1.8,
            markevery=max(1, len(best) // 5),
        )  # fmt: skip
    panel.axvline(gold, color="black", linestyle="--", linewidth=0.6)
    panel.xaxis.set_major_locator(MaxNLocator(2, prune="upper"))
    panel.yaxis.set_major_locator(MaxNLocator(2))
    panel.tick_params(labelsize=6, length=2)


def heatmap_figure(content: Content) -> Figure | None:
    """The recall of every head at nine tenths sparsity, for each method that gets there."""
    if content.points is None:
        return None
    found = content.heads[0]
    tables = {
        series.label: table
        for number, series in enumerate(found.series)
        if series.competes and np.isfinite(table := _recall_table(found, number)).any()
    }
    if not tables:
        return None
    rows, columns = _shape(found)
    across = min(4, len(tables))
    down = -(-len(tables) // across)
    figure = Figure(
        figsize=(1.8 * across + 0.7, 1.8 * down * max(0.5, len(rows) / len(columns)) + 0.5), layout="constrained"
    )
    axes = figure.subplots(down, across, squeeze=False)
    lowest = min(np.nanmin(table) for table in tables.values())
    for panel, (label, table) in zip(axes.flat, tables.items(), strict=False):
        image = panel.imshow(table, vmin=lowest, vmax=1, cmap="viridis", aspect="auto")
        panel.set_title(label, fontsize=8)
        panel.set_xticks(range(0, len(columns), max(1, len(columns) // 4)))
        panel.set_yticks(range(len(rows)), [str(layer) for _, layer in rows])
        panel.tick_params(labelsize=6, length=2)
    for panel in axes.flat[len(tables) :]:
        panel.set_visible(False)
    figure.supxlabel("Head", fontsize=8)
    figure.supylabel("Layer", fontsize=8)
    figure.colorbar(image, ax=axes, label=f"Recall at sparsity ≥ {WANTED:g}")
    return figure


def _recall_table(found: HeadFrontiers, number: int) -> NDArray[np.float64]:
    """The highest recall of a series that is sparse enough, by layer and head; not a number where it has none."""
    points = found.points
    rows, columns = _shape(found)
    table = np.full((len(rows), len(columns)), np.nan)
    for place, (kind, layer, head) in enumerate(points.heads):
        enough = [row for row in found.of(place, number) if points.sparsity[row] >= WANTED]
        if enough:
            table[rows.index((kind, layer)), columns.index(head)] = points.recall[enough].max()
    return table


def _shape(found: HeadFrontiers) -> tuple[list[tuple[str, int]], list[int]]:
    heads = found.points.heads
    return list(dict.fromkeys((kind, layer) for kind, layer, _ in heads)), sorted({head for _, _, head in heads})
