"""Tables on the terminal that cut no number: what does not fit beside stands below."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

__all__ = ["FIT", "fitting", "for_terminal"]

FIT = 80
UNBOUNDED = 1000


def for_terminal(width: int = FIT) -> Console:
    """Where tables go. A file has no width: what fits a terminal fits it, and what does not is not cut."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


def fitting(first: str, labels: Sequence[str], columns: Sequence[Sequence[str]], console: Console) -> list[Table]:
    """All columns beside each other, or as many as there is room for and the others below.

    first: the heading of the labels. columns: each with its heading first.
    """
    for count in range(len(columns), 0, -1):
        table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column(first, no_wrap=True)
        for heading, *_ in columns[:count]:
            table.add_column(heading, justify="right", no_wrap=True)
        for place, label in enumerate(labels, 1):
            table.add_row(label, *(column[place] for column in columns[:count]))
        room = console.options.update(max_width=UNBOUNDED)
        if count == 1 or console.measure(table, options=room).maximum <= console.width:
            return [table, *fitting(first, labels, columns[count:], console)]
    return []
