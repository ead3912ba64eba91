"""Decoding on the terminal, 80 columns wide: a table of every way for each cached length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from .table import WIDTH
from .ways import WAYS

__all__ = ["print_decoding"]

COLUMNS = (
    "tokens\n/ s",
    "cache\nms",
    "find\nms",
    "attend\nms",
    "×\ndyn.",
    "×\nstatic",
    "recall",
    "bytes\n/ key",
    "perpl.",
)
CAPTION = (
    "ms: medians of one token, in all layers; ×: times as fast as softmax with DynamicCache and with a static cache, "
    "in the whole model; bytes of the index for a key of a head; perplexity of text that is decoded token by token"
)


def print_decoding(rows: Iterable[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print the rows of a benchmark of decoding."""
    rows, console = list(rows), console or Console(width=WIDTH)
    labels = {way.name: way.label for way in WAYS}
    for length in sorted({row["length"] for row in rows}):
        here = [row for row in rows if row["length"] == length]
        threads, turns = here[0]["threads"], here[0]["turns"]
        title = f"{length:,} tokens cached, {turns} turn{'s' * (turns != 1)} on {threads} thread{'s' * (threads != 1)}"
        table = Table("way", box=SIMPLE, title=title, width=WIDTH, padding=(0, 0), pad_edge=False, header_style="bold")
        for name in COLUMNS:
            table.add_column(name, justify="right")
        table.columns[0].no_wrap = True
        for row in here:
            table.add_row(labels[row["way"]], *_cells(row))
        console.print(table)
    if rows:
        console.print(CAPTION, style="dim")


def _cells(row: Mapping[str, Any]) -> list[str]:
    def shown(name: str, digits: int, factor: float = 1) -> str:
        return "–" if not row[name] else f"{factor * row[name]:.{digits}f}"

    return [
        f"{1 / row['step']:.0f}", shown("cache", 2, 1000), shown("find", 2, 1000), shown("attend", 2, 1000),
        shown("to_dynamic", 2), shown("to_static", 2), shown("recall", 3), shown("bytes_per_key", 0),
        shown("perplexity", 1),
    ]  # fmt: skip
