"""Running time and quality by the number of attended blocks: averaged over block sizes, and for each of them."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .content import Content
from .figures_look import COLUMN, TEXT, line_look, score_axis
from .methods import Series, style
from .timing import LINES, RunningTimes

__all__ = ["sizes_figure", "timing_figure"]


def timing_figure(content: Content) -> Figure | None:
    """Time above, quality below; the full model dashed."""
    if content.timing is None:
        return None
    figure = Figure(figsize=(COLUMN, 4.2), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    _panels(axes[0], axes[1], content.timing, None)
    axes[0].set_xlabel("")
    _legend(figure, axes[0])
    return figure


def sizes_figure(content: Content) -> Figure | None:
    """The same, a column for each block size."""
    timing = content.timing
    if timing is None or len(timing.sizes) < 2:
        return None
    figure = Figure(figsize=(TEXT, 3.8), layout="constrained")
    axes = figure.subplots(2, len(timing.sizes), sharex=True, sharey="row")
    for column, size in enumerate(timing.sizes):
        _panels(axes[0, column], axes[1, column], timing, size, turned=column == 0)
        axes[0, column].set_title(f"block size {size}")
        axes[0, column].set_xlabel("")
        if column:
            axes[0, column].set_ylabel("")
            axes[1, column].set_ylabel("")
    _legend(figure, axes[0, 0])
    return figure


def _panels(time: Axes, quality: Axes, timing: RunningTimes, size: int | None, turned: bool = True) -> None:
    """turned: whether the axis of the score has to be, which panels of a row share."""
    score = timing.score
    attended: set[int] = set()
    for method in timing.methods:
        curve = timing.curve(method, size)
        attended |= {spot.blocks for spot in curve}
        look = line_look(Series(method, "none", style(method).label, 0))
        blocks = [spot.blocks for spot in curve]
        seconds = [spot.seconds for spot in curve]
        time.plot(blocks, seconds, label=style(method).label, **look)
        low, high = [spot.low for spot in curve], [spot.high for spot in curve]
        time.fill_between(blocks, low, high, color=style(method).light, alpha=0.15, linewidth=0)
        quality.plot(blocks, [spot.score for spot in curve], **look)
    for method, dashes in LINES.items():
        line = timing.line(method)
        if line is not None:
            time.axhline(line.seconds, color="black", linestyle=dashes, linewidth=0.9, label=style(method).label)
            quality.axhline(line.score, color="black", linestyle=dashes, linewidth=0.9)
    time.set(xlabel="Attended blocks", ylabel="Time of a pass (s)")
    quality.set(xlabel="Attended blocks")
    if turned:
        score_axis(quality, score)
    for axes in (time, quality):
        axes.grid(visible=True)
        axes.set_xticks(_apart(attended, 0.05 if size is None else 0.1))


def _apart(values: Iterable[int], share: float) -> list[int]:
    """The values that were measured, without those too near to the one before: by less than that share of all."""
    first, *others = sorted(values)
    kept = [first]
    for value in others:
        if value - kept[-1] >= share * (max(others) - first):
            kept.append(value)
    return kept


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    narrow = figure.get_figwidth() < TEXT
    figure.legend(handles, labels, loc="outside upper center", ncols=2 if narrow else len(labels))
