"""Every method by length: times in a figure for print; in a chart for a README, on light and on dark ground, how many
times as fast as softmax it is.
"""

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
RATIOS = {"to_softmax": "attention, finding included", "forward_to_softmax": "whole model"}


def bench_figure(content: Content) -> Figure | None:
    """Attention alone on the left, the whole forward on the right; nothing where there is one length alone."""
    found = content.bench
    if found is None or len(found.lengths) < 2:
        return None
    figure = Figure(figsize=(TEXT, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for panel, (name, title) in zip(axes, PANELS.items(), strict=True):
        _panel(panel, found, name, lambda line: style(line.entry.method).light, scale=1000)
        panel.set(xlabel="Tokens", ylabel=title, yscale="log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def write_chart(folder: RunFolder, path: Path) -> None:
    """Write how many times as fast as softmax attention is, alone and in the model, as an SVG without a background."""
    found = bench_results(read_bench(folder))
    if found is None or len(found.lengths) < 2:
        measured = "none" if found is None else f"{found.lengths[0]} alone"
        raise InputError("chart", f"lengths measured: {measured}", "two lengths at least: --lengths 512,1024")
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(10.6, 4.0), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, 2), RATIOS.items(), strict=True):
            _panel(axes, found, name, lambda line: between(style(line.entry.method)))
            axes.set(title=title, xlabel="tokens in a sequence", ylabel="times as fast as with softmax", ylim=(0, None))
        write_for_readme(figure, path)


def _panel(
    axes: Axes, found: BenchResults, name: str, colour: Callable[[BenchLine], str], *, scale: float = 1.0
) -> None:
    for line in found.lines:
        rows = [row for row in line.rows if row[name] is not None]
        lengths = [row["length"] for row in rows]
        shade = colour(line)
        axes.plot(
            lengths, [scale * row[name] for row in rows], label=line.entry.label, color=shade, markersize=5,
            marker=style(line.entry.method).marker, linestyle=LINES.get(line.entry.method, dash(line.rank)),
            linewidth=1.6 if line.entry.finds else 2.2, markerfacecolor=shade if line.rank == 0 else "none",
        )  # fmt: skip
        low, high = ([scale * row[f"{name}_{end}"] for row in rows] for end in ("low", "high"))
        axes.fill_between(lengths, low, high, color=shade, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(found.lengths)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(visible=True, color=GREY, alpha=0.25, linewidth=0.6)
