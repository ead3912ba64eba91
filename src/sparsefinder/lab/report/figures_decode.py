"""Tokens per second by cached length, for each way to decode: a chart for a README, on light and on dark ground."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ...errors import InputError
from ..bench.decoding import read_decode
from ..bench.ways import WAYS
from ..folder import RunFolder
from .figures_look import GREY, README, write_for_readme

__all__ = ["write_decoding"]

LOOKS = {
    "softmax-dynamic": (GREY, "o", ":"), "softmax-static": (GREY, "s", "-"), "full": ("#6f7fd0", "_", "-"),
    "share": ("#c58a2a", "v", "--"), "slack": ("#179d77", "D", "-"), "certified": ("#b0559a", "^", "-"),
}  # fmt: skip


def write_decoding(folder: RunFolder, path: Path) -> None:
    """Write tokens per second by cached length as an SVG without a background."""
    rows = read_decode(folder)
    lengths = sorted({row["length"] for row in rows})
    if len(lengths) < 2:
        got = f"lengths measured: {', '.join(map(str, lengths)) or 'none'}"
        raise InputError("chart", got, "two lengths at least: --lengths 1024,4096")
    with matplotlib.rc_context(README):
        figure = Figure(figsize=(8.3, 4.4), layout="constrained")
        axes = figure.subplots()
        for way in WAYS:
            mine = sorted((row for row in rows if row["way"] == way.name), key=lambda row: row["length"])
            colour, marker, line = LOOKS[way.name]
            places = [row["length"] for row in mine]
            speeds = [1 / row["step"] for row in mine]
            axes.plot(places, speeds, label=way.label, color=colour, marker=marker, linestyle=line, markersize=5)
            low, high = ([1 / row[f"step_{end}"] for row in mine] for end in ("high", "low"))
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xlabel="tokens cached", ylabel="tokens per second, whole model", ylim=(0, None))
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        write_for_readme(figure, path)
