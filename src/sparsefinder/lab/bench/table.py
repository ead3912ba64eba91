"""A benchmark on the terminal, 80 columns wide: a table of every method for each length, and one of the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from .crossover import by_blocks, by_length, ordered

__all__ = ["WIDTH", "print_tables"]

WIDTH = 80
LONGEST_LABEL = 22
CAPTION = (
    "ms: medians for a sequence, in all layers; × all, × softmax: times as fast as the teacher's attention over all "
    "pairs and as torch's softmax, alone, finding included; × model: the whole forward against the softmax model; "
    "±: half the middle half of × softmax"
)
MEAN = "means over block sizes and numbers of clusters, with a window of 3 and the first token"
COLUMNS = ("recall", "sparse", "find\nms", "attend\nms", "×\nall", "×\nsoftmax", "×\nmodel", "±")


def print_tables(rows: Iterable[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print the rows of a benchmark."""
    rows, console = list(rows), console or Console(width=WIDTH)
    lengths = by_length(rows)
    for length in sorted({row["length"] for row in rows if not row["block"]}):
        here = {entry: [row for row in some if row["length"] == length] for entry, some in lengths.items()}
        here = {entry: some for entry, some in here.items() if some}
        table = _table(_title(next(iter(here.values()))[0]))
        for entry in ordered(here):
            table.add_row(_short(entry.label), *_cells(here[entry][0]))
        console.print(table)
    grid = by_blocks(rows)
    if grid:
        table = _table(f"{_title(grid[0])}, by attended blocks", "blocks")
        for row in grid:
            table.add_row(_short(row["label"]), str(row["blocks"]), *_cells(row))
        console.print(table)
        console.print(MEAN, style="dim")
    if rows:
        console.print(CAPTION, style="dim")


def _table(title: str, *more: str) -> Table:
    table = Table("method", box=SIMPLE, title=title, width=WIDTH, padding=(0, 0), pad_edge=False, header_style="bold")
    for name in (*more, *COLUMNS):
        table.add_column(name, justify="right")
    table.columns[0].no_wrap = True
    return table


def _title(row: Mapping[str, Any]) -> str:
    turns, threads = (f"{row[name]} {name if row[name] != 1 else name[:-1]}" for name in ("turns", "threads"))
    return f"{row['batch']} × {row['length']:,} tokens, {turns} on {threads}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    def shown(name: str, digits: int, factor: float = 1) -> str:
        return "–" if row[name] is None else f"{factor * row[name]:.{digits}f}"

    ratio = row["to_softmax"]
    spread = (row["to_softmax_high"] - row["to_softmax_low"]) / 2 / ratio
    return [
        shown("recall", 3), shown("sparsity", 3),
        "–" if row["find"] == 0 else _milliseconds(row["find"]), _milliseconds(row["attend"]),
        shown("to_full", 2), shown("to_softmax", 2), shown("forward_to_softmax", 2), f"{spread:.0%}",
    ]  # fmt: skip


def _milliseconds(seconds: float) -> str:
    """Three digits at least, and no more than it takes."""
    value = 1000 * seconds
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
