"""Figures for print, as in the paper: vector and bitmap, fonts embedded, the same looks as on the page."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from .content import Content
from .figures_bench import bench_figure
from .figures_clusters import cluster_figure
from .figures_heads import heads_figure, heatmap_figure
from .figures_look import LOOK
from .figures_maps import maps_figure
from .figures_pareto import pareto_figure
from .figures_timing import sizes_figure, timing_figure

__all__ = ["FIGURES", "write_figures"]

# What the paper shows, in its order; heads and block sizes are in its appendix. The heatmap is ours.
FIGURES: dict[str, Callable[[Content], Figure | None]] = {
    "pareto": pareto_figure,
    "heads": heads_figure,
    "heatmap": heatmap_figure,
    "maps": maps_figure,
    "clusters": cluster_figure,
    "timing": timing_figure,
    "timing-by-size": sizes_figure,
    "bench": bench_figure,
}


def write_figures(content: Content, folder: Path) -> None:
    """Write every figure that the run has the numbers for."""
    with matplotlib.rc_context(LOOK), warnings.catch_warnings():
        # A token in a script that the font lacks is a box in print; the page has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for name, figure_of in FIGURES.items():
            figure = figure_of(content)
            if figure is not None:
                if figure.get_layout_engine() is not None:
                    # The costly part, and the same for both files.
                    figure.draw_without_rendering()
                    figure.set_layout_engine("none")
                for kind in ("pdf", "png"):
                    figure.savefig(folder / f"{name}.{kind}", dpi=200)
