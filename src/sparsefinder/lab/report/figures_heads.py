"""Sparsity–recall trade-offs of every layer and head with a fixed window, and recall of every head at one sparsity."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, PercentFormatter
from numpy.typing import NDArray

from .answer import shown_first
from .charts import HeadFrontiers, compared_at, dash
from .content import Content
from .figures_look import SMALL, TEXT, legend_columns, legend_entries, percent

__all__ = ["heads_figure", "heatmap_figure"]

# More columns than this are narrow.
NARROW = 8
# Of a line beside what is hatched.
LETTERS = 84
NOT_REACHED: Any = {"facecolor": "#dddddd", "hatch": "////", "edgecolor": "#888888"}


def heads_figure(content: Content) -> Figure | None:
    """One small chart for each head: a row per layer, a column per head."""
    points, recall = content.points, content.recall
    if points is None or recall is None:
        return None
    found = content.heads[-1]
    # The bound is one point, and the gold line says where it is.
    shown = [number for number in shown_first(recall) if not found.series[number].bound]
    rows, columns = _shape(found)
    figure, axes = _panels(found, shown)
    # The same limits for all, set by hand: shared axes look at all panels again with every line.
    mine = found.rows[np.isin(found.which, shown)]
    lowest = [max(0.0, float(np.nanmin(values[mine])) - 0.03) for values in (points.sparsity, points.recall)]
    gold = points.gold_by_head
    for place, (kind, layer, head) in enumerate(points.heads):
        panel = axes[rows.index((kind, layer)), columns.index(head)]
        _draw_frontiers(panel, found, shown, place, gold[place])
        # Room to the right of 100 %, or the gold line of a sparse head would lie on the frame.
        panel.set(xlim=(lowest[0], 1.04), ylim=(lowest[1], 1.06))
        # Labels of narrow panels would run into those of their neighbours.
        panel.xaxis.set_major_locator(FixedLocator([0.5] if len(columns) > NARROW else [0, 0.5, 1]))
        panel.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        panel.label_outer()
    kinds = len({kind for kind, _ in rows})
    for row, (kind, layer) in enumerate(rows):
        axes[row, 0].set_ylabel(f"{kind} {layer}" if kinds > 1 else f"layer {layer}", fontsize=SMALL)
    for column, head in enumerate(columns):
        axes[0, column].set_title(f"head {head}", fontsize=SMALL)
    return figure


def _panels(found: HeadFrontiers, shown: Collection[int]) -> tuple[Figure, Any]:
    """A figure with room for all heads, its titles and its legend; and the panels."""
    rows, columns = _shape(found)
    width = min(TEXT, 1.5 * len(columns) + 1.0)
    entries = legend_entries((found.series[number] for number in shown), star=False)
    across = legend_columns(entries, width, 6)
    above = 0.16 * -(-len(entries) // across) + 0.28
    height = 0.85 * (width - 0.7) / len(columns) * len(rows) + above + 0.52
    # Margins in inches: a layout that finds them by itself takes a minute for as many panels as a large model has.
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(
        left=0.68 / width, right=1 - 0.05 / width, top=1 - above / height, bottom=0.5 / height, wspace=0.15, hspace=0.15
    )
    window = "" if found.window is None else f"; window {found.window}"
    figure.supxlabel(f"Sparsity (% of pairs skipped{window})", fontsize=8, y=0.06 / height, va="bottom")
    figure.supylabel("Recall (%)", fontsize=8, x=0.05 / width, ha="left")
    figure.legend(handles=entries, loc="upper center", ncols=across, columnspacing=1.2, handlelength=1.8)
    return figure, figure.subplots(len(rows), len(columns), squeeze=False)


def _draw_frontiers(panel: Axes, found: HeadFrontiers, shown: Collection[int], head: int, gold: float) -> None:
    """The frontier of each series in one head, and its gold sparsity."""
    points = found.points
    for number in shown:
        series, best = found.series[number], found.of(head, number)
        panel.plot(
            points.sparsity[best], points.recall[best], color=series.style.light,
            linestyle=dash(series.rank), linewidth=0.9, marker=series.style.marker, markersize=2.2,
            markevery=max(1, len(best) // 5),
        )  # fmt: skip
    # Above all lines: a gold line that others hide is none.
    panel.axvline(gold, color="black", linestyle="--", linewidth=1.0, zorder=6)
    percent(panel.xaxis, panel.yaxis)
    panel.tick_params(labelsize=SMALL, length=2)


def heatmap_figure(content: Content) -> Figure | None:
    """The recall of every head at one sparsity, for each method that gets there in some head."""
    if content.points is None or content.recall is None:
        return None
    found, wanted = content.heads[0], compared_at(content.recall)
    competing = [number for number, series in enumerate(found.series) if series.competes]
    every = {found.series[number].label: _recall_table(found, number, wanted) for number in competing}
    tables = {label: table for label, table in every.items() if np.isfinite(table).any()}
    if not tables:
        return None
    rows, columns = _shape(found)
    # As many beside each other as leave the fewest places empty.
    across = min(range(3, 6), key=lambda count: (-len(tables) % count, -count)) if len(tables) > 3 else len(tables)
    down = -(-len(tables) // across)
    tall = (TEXT - 0.9) / across * min(1.2, max(0.45, len(rows) / len(columns)))
    figure = Figure(figsize=(TEXT, down * (tall + 0.28) + 0.75), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    lowest = min(np.nanmin(table) for table in tables.values())
    for panel, (label, table) in zip(axes.flat, tables.items(), strict=False):
        panel.patch.set(linewidth=0, **NOT_REACHED)
        image = panel.imshow(table, vmin=lowest, vmax=1, cmap="viridis", aspect="auto")
        panel.set_title(label)
        panel.set_xticks(range(0, len(columns), max(1, len(columns) // 4)))
        some = range(0, len(rows), max(1, len(rows) // 6))
        panel.set_yticks(some, [_row(rows, place) for place in some])
        panel.tick_params(labelsize=SMALL, length=2)
    for panel in axes.flat[len(tables) :]:
        panel.set_visible(False)
    figure.supxlabel("Head")
    figure.supylabel("Layer")
    bar = f"Recall (%) at sparsity ≥ {100 * wanted:g} %"
    figure.colorbar(image, ax=axes, label=bar, format=PercentFormatter(1.0, decimals=0, symbol=""))
    _explain_blanks(figure, every)
    return figure


def _explain_blanks(figure: Figure, every: dict[str, NDArray[np.float64]]) -> None:
    """What is hatched, and which methods are not shown."""
    hatched = [Patch(label="no setting is that sparse", **NOT_REACHED)]
    missing = [label for label, table in every.items() if not np.isfinite(table).any()]
    if missing:
        hatched.append(Patch(alpha=0, label=textwrap.fill(f"in no head: {', '.join(missing)}", LETTERS)))
    if missing or any(np.isnan(table).any() for table in every.values()):
        figure.legend(handles=hatched, loc="outside upper center", ncols=2, handlelength=1.6)


def _recall_table(found: HeadFrontiers, number: int, wanted: float) -> NDArray[np.float64]:
    """The highest recall of a series that is sparse enough, by layer and head; not a number where it has none."""
    points = found.points
    rows, columns = _shape(found)
    table = np.full((len(rows), len(columns)), np.nan)
    for place, (kind, layer, head) in enumerate(points.heads):
        enough = [row for row in found.of(place, number) if points.sparsity[row] >= wanted]
        if enough:
            table[rows.index((kind, layer)), columns.index(head)] = points.recall[enough].max()
    return table


def _row(rows: list[tuple[str, int]], place: int) -> str:
    kind, layer = rows[place]
    return f"{kind} {layer}" if len({one for one, _ in rows}) > 1 else str(layer)


def _shape(found: HeadFrontiers) -> tuple[list[tuple[str, int]], list[int]]:
    heads = found.points.heads
    return list(dict.fromkeys((kind, layer) for kind, layer, _ in heads)), sorted({head for _, _, head in heads})
