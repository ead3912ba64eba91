"""What a command says when it ends: its results, or where it was stopped and how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer

from .progress import say

__all__ = ["print_lines", "saying_how_to_go_on", "stopped"]


def print_lines(lines: Iterable[str]) -> None:
    """Results, for stdout. A terminal's lines break between words, but no path is cut; those of a file stay whole."""
    from rich.console import Console

    out = Console(highlight=False)
    for line in lines:
        out.print(line, markup=False, soft_wrap=not out.is_terminal or "/" in line.rpartition(" ")[2])


@contextmanager
def saying_how_to_go_on() -> Iterator[None]:
    """Ctrl-C in this block says where it was: not later, as Typer takes it for itself."""
    try:
        yield
    except KeyboardInterrupt as error:
        say("\n".join(stopped(getattr(error, "__notes__", []), sys.argv[1:])), whole=True)
        raise typer.Exit(130) from None


def stopped(notes: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Where it was when Ctrl-C came, from the innermost outwards, and the command that goes on."""
    stages = [note.removeprefix("stage ") for note in notes if note.startswith("stage ")]
    where = "; ".join(note for note in notes if not note.startswith("stage "))
    said = f"stopped in {stages[0]}" if stages else "stopped"
    # What was measured before this command may be measured again, but not what this one has measured already.
    same = shlex.join(["sparsefinder", *(word for word in arguments if word != "--again")])
    return [f"{said}: {where}" if where else said, *([f"to go on: {same}"] if notes else [])]
