"""Sparsity–recall trade-offs of every layer and head with a fixed window, and recall of every head at one sparsity."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .charts import HeadFrontiers, dash
from .content import Content
from .figures_pareto import legend_entries

__all__ = ["heads_figure", "heatmap_figure"]


def heads_figure(content: Content) -> Figure | None:
    """One small chart for each head: a row a layer, a column a head."""
    points = content.points
    if points is None:
        return None
    found = content.heads[-1]
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
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    # The same limits for all, set by hand: shared axes look at all panels again with every line.
    lowest = [max(0.0, float(values[found.rows].min()) - 0.03) for values in (points.sparsity, points.recall)]
    gold = points.gold_by_head
    for place, (kind, layer, head) in enumerate(points.heads):
        panel = axes[rows.index((kind, layer)), columns.index(head)]
        for number, series in enumerate(found.series):
            best = found.of(place, number)
            panel.plot(
                points.sparsity[best], points.recall[best], color=series.style.light,
                linestyle=dash(series.rank), linewidth=0.8, marker=series.style.marker, markersize=1.8,
                markevery=max(1, len(best) // 5),
            )  # fmt: skip
        panel.axvline(gold[place], color="black", linestyle="--", linewidth=0.6)
        panel.set(xlim=(lowest[0], 1), ylim=(lowest[1], 1.04))
        panel.xaxis.set_major_locator(MaxNLocator(2, prune="upper"))
        panel.yaxis.set_major_locator(MaxNLocator(2))
        panel.tick_params(labelsize=6, length=2)
        panel.label_outer()
    for row, (kind, layer) in enumerate(rows):
        kinds = len({one for one, _ in rows})
        axes[row, 0].set_ylabel(f"{kind} {layer}" if kinds > 1 else f"layer {layer}", fontsize=7)
    for column, head in enumerate(columns):
        axes[0, column].set_title(f"head {head}", fontsize=7)
    window = "" if found.window is None else f" (window {found.window})"
    figure.supxlabel(f"Sparsity{window}", fontsize=8, y=0.08 / height, va="bottom")
    figure.supylabel("Recall", fontsize=8, x=0.05 / width, ha="left")
    figure.legend(handles=legend_entries(list(found.series))[:-1], loc="upper center", ncols=across, fontsize=7)
    return figure


def heatmap_figure(content: Content) -> Figure | None:
    """The recall of every head at nine tenths sparsity, for each method that gets there."""
    points, wanted = content.points, 0.9
    if points is None:
        return None
    found = content.heads[0]
    rows, columns = _shape(found)
    tables = {}
    for number, series in enumerate(found.series):
        table = np.full((len(rows), len(columns)), np.nan)
        for place, (kind, layer, head) in enumerate(points.heads):
            enough = [row for row in found.of(place, number) if points.sparsity[row] >= wanted]
            if enough:
                table[rows.index((kind, layer)), columns.index(head)] = points.recall[enough].max()
        if series.competes and np.isfinite(table).any():
            tables[series.label] = table
    if not tables:
        return None
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
    figure.colorbar(image, ax=axes, label=f"Recall at sparsity ≥ {wanted:g}")
    return figure


def _shape(found: HeadFrontiers) -> tuple[list[tuple[str, int]], list[int]]:
    heads = found.points.heads
    return list(dict.fromkeys((kind, layer) for kind, layer, _ in heads)), sorted({head for _, _, head in heads})
