"""How figures for print look: as wide as a paper's column or text, fonts that can be read there, axes in percent.

Methods have the colours and the order of the page. Charts for a README have no background, and colours that can be read
on light and on dark ground.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from ...files import whole_file
from ..sweep.points import Floats
from .charts import FullScore, Range, dash
from .methods import Series, Style

__all__ = [
    "COLUMN", "GREY", "LOOK", "README", "SMALL", "TEXT", "between", "legend_columns", "legend_entries", "line_look",
    "percent", "score_axis", "skipped_axis", "write_for_readme",
]  # fmt: skip

# Inches: a column and the text of a page in two columns.
COLUMN, TEXT = 3.35, 6.9
# Points: the smallest that is read in print.
SMALL = 7
# Inches in a legend: a letter of that size, and what stands before a name and after it.
LETTER, BESIDES = 0.054, 0.44
LOOK: Any = {
    "font.family": "serif",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": False,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    # A dollar sign in a token begins no formula.
    "text.parse_math": False,
    # Text as text, so that a figure can be searched.
    "pdf.fonttype": 42,
}
# Where an axis of sparsity has its ticks.
SKIPPED = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
# Between black and white: it can be read on both.
GREY = "#808080"
README: Any = {
    "font.family": "sans-serif",
    "font.size": 11,
    "svg.fonttype": "none",
    # The same picture, the same file.
    "svg.hashsalt": "sparsefinder",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY),
}


def between(look: Style) -> str:
    """A colour between those of a method on light and on dark ground, which can be told on both."""
    sides = [[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in (look.light, look.dark)]
    return "#" + "".join(f"{(one + other) // 2:02x}" for one, other in zip(*sides, strict=True))


def write_for_readme(figure: Figure, path: Path) -> None:
    """Write a figure as an SVG without a background, one legend beside its panels."""
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        axes.grid(visible=True, color=GREY, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        handles, labels = axes.get_legend_handles_labels()
        entries |= zip(labels, handles, strict=True)
    figure.legend(entries.values(), entries.keys(), loc="outside right upper", frameon=False, fontsize=10)
    with whole_file(path) as file:
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})


def percent(*axes: Axis) -> None:
    """Shares as percent; the axis says so in its title."""
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))


def skipped_axis(axes: Axes, least: float, most: float) -> None:
    """An axis of sparsity on which every halving of the pairs that are left is as wide: what matters is close to 1."""
    axes.set_xscale("function", functions=(_halvings, _skipped))
    axes.set(xlabel="pairs skipped, %", xlim=(least, most))
    axes.xaxis.set_major_locator(FixedLocator(_apart(least, most)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")


def _apart(least: float, most: float) -> list[float]:
    """The ticks of an axis from one sparsity to another, from the right, without those that would touch another."""
    left, right = _halvings(np.array([least, most]))
    kept: list[float] = []
    for tick in reversed(SKIPPED):
        far = not kept or np.diff(_halvings(np.array([tick, kept[-1]]))).item() >= (right - left) / 12
        if least <= tick <= most and far:
            kept.append(tick)
    return kept


def _halvings(skipped: Floats) -> Floats:
    return -np.log2(np.maximum(1 - np.asarray(skipped), 1e-6))


def _skipped(halvings: Floats) -> Floats:
    return 1 - np.exp2(-np.asarray(halvings))


def score_axis(axes: Axes, score: FullScore, limits: Range | None = None) -> None:
    """The axis of a score: upside down where less is better. limits: upwards being better."""
    axes.set_ylabel(score.axis[:1].upper() + score.axis[1:])
    if limits is not None:
        axes.set_ylim(*(score.upwards(end) for end in limits))
    elif score.lower_is_better:
        axes.invert_yaxis()


def line_look(series: Series) -> dict[str, Any]:
    """How the line of a series is drawn."""
    face = series.style.light if series.rank == 0 else "white"
    return {
        "color": series.style.light, "marker": series.style.marker, "linestyle": dash(series.rank),
        "markersize": 4, "markeredgewidth": 0.8,
        "markerfacecolor": face,
    }  # fmt: skip


def legend_columns(entries: Sequence[Line2D], width: float, most: int) -> int:
    """As many columns as there is room for."""
    letters = np.array([len(str(one.get_label())) for one in entries])
    for count in range(min(most, len(entries)), 1, -1):
        # As matplotlib shares them out: column by column.
        if sum(LETTER * some.max() + BESIDES for some in np.array_split(letters, count)) <= width:
            return count
    return 1


def legend_entries(series: Iterable[Series], star: bool = True) -> list[Line2D]:
    """A line of each series, the gold line, and the star."""
    lines = [Line2D([], [], label=one.label, **line_look(one)) for one in series]
    lines.append(Line2D([], [], label="gold sparsity", color="black", linestyle="--", linewidth=0.9))
    if star:
        lines.append(Line2D([], [], label="full entmax", marker="*", linestyle="none", color="black", markersize=8))
    return lines
