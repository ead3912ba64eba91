"""Time by length, for each method: a figure for print, and a chart for a README, on light and on dark ground."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ...errors import InputError
from ..bench.points import read_bench
from ..folder import RunFolder
from .bench import BenchLine, BenchResults, bench_results
from .charts import dash
from .content import Content
from .figures_look import GREY, README, TEXT, between, write_for_readme
from .methods import style
from .timing import LINES

__all__ = ["bench_figure", "write_chart"]

PANELS = {"alone": "Attention alone: finding and attending (ms)", "forward": "Whole forward (ms)"}


def bench_figure(content: Content) -> Figure | None:
    """Attention alone on the left, the whole forward on the right; nothing where there is one length alone."""
    found = content.bench
    if found is None or len(found.lengths) < 2:
        return None
    figure = Figure(figsize=(TEXT, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for panel, (name, title) in zip(axes, PANELS.items(), strict=True):
        _panel(panel, found, name, lambda line: style(line.entry.method).light)
        panel.set(xlabel="Tokens", ylabel=title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def write_chart(folder: RunFolder, path: Path) -> None:
    """Write attention alone by length as an SVG without a background."""
    found = bench_results(read_bench(folder))
    if found is None or len(found.lengths) < 2:
        measured = "none" if found is None else f"{found.lengths[0]} alone"
        raise InputError("chart", f"lengths measured: {measured}", "two lengths at least: --lengths 512,1024")
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(8.3, 4.4), layout="constrained")
        axes = figure.subplots()
        _panel(axes, found, "alone", lambda line: between(style(line.entry.method)))
        axes.set(xlabel="tokens in a sequence", ylabel="finding and attending, ms a sequence")
        write_for_readme(figure, path)


def _panel(axes: Axes, found: BenchResults, name: str, colour: Callable[[BenchLine], str]) -> None:
    for line in found.lines:
        rows = [row for row in line.rows if row[name] is not None]
        lengths = [row["length"] for row in rows]
        shade = colour(line)
        axes.plot(
            lengths, [1000 * row[name] for row in rows], label=line.entry.label, color=shade, markersize=5,
            marker=style(line.entry.method).marker, linestyle=LINES.get(line.entry.method, dash(line.rank)),
            linewidth=1.6 if line.entry.finds else 2.2, markerfacecolor=shade if line.rank == 0 else "none",
        )  # fmt: skip
        low, high = ([1000 * row[f"{name}_{end}"] for row in rows] for end in ("low", "high"))
        axes.fill_between(lengths, low, high, color=shade, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(found.lengths)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(visible=True, color=GREY, alpha=0.25, linewidth=0.6)
