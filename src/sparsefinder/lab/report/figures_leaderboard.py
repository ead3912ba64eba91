"""The chart of the leaderboard: the frontiers of every method, a panel for each teacher."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..folder import RunFolder
from ..leaderboard import Standing
from ..sweep.measured import measured_recall
from .charts import Cloud
from .figures_look import GREY, README, between, line_look, percent, skipped_axis, write_for_readme
from .methods import series_of

__all__ = ["write_chart"]

# Nothing is read off below.
LOWEST = 0.3
# To where sparsity goes at the least.
SPARSE = 0.99


def write_chart(folders: Sequence[RunFolder], found: Sequence[Standing], path: Path) -> None:
    """Write the frontiers of all methods in a leaderboard as an SVG for a README, the legend in its order."""
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(4.1 * len(folders) + 2.4, max(4.2, 0.225 * len(found) + 0.6)), layout="constrained")
        panels = figure.subplots(1, len(folders), sharey=True, squeeze=False)[0]
        for axes, folder in zip(panels, folders, strict=True):
            _panel(axes, folder, found)
            axes.set(title=folder.path.resolve().name, ylim=(LOWEST, 1.01))
        panels[0].set_ylabel("pairs that matter found, %")
        percent(panels[0].yaxis)
        write_for_readme(figure, path)


def _panel(axes: Axes, folder: RunFolder, found: Sequence[Standing]) -> None:
    measured = measured_recall(folder)
    assert measured is not None, "standings have points of each run"
    cloud = Cloud(series_of(measured.methods), measured)
    numbers = {series.key: number for number, series in enumerate(cloud.series)}
    for one in found:
        number = numbers.get((one.method, one.inputs))
        if number is None:
            continue
        series, (_, best) = cloud.series[number], cloud.of(number)
        look = {**line_look(series), "color": between(series.style), "markerfacecolor": "none"}
        look["linewidth"] = 2.4 if one.ours else 1.2
        axes.plot(cloud.x[best], cloud.y[best], label=one.label, markevery=max(1, len(best) // 10), **look)
    axes.axvline(measured.gold, color=GREY, linestyle="--", linewidth=1.2, label="as sparse as the teacher")
    skipped_axis(axes, 0.0, max(SPARSE, measured.gold + (1 - measured.gold) / 3))
