"""The leaderboard: every method over several teachers, by what it finds, what finding costs and what time it saves.

Standings are means over teachers, so that a method has a place only if it was measured on all of them. Full attention
finds all with a sparsity of 0, and no pairs at all are a sparsity of 1 with a recall of 0: where no setting of a method
reaches what is asked for, these are what it has. What it reaches on no teacher is none, and said to be.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np
from rich.console import Console

from ..core.pareto import quality_at
from ..errors import InputError
from ..finders import methods
from .bench.entries import Entry
from .bench.points import read_bench
from .folder import RunFolder
from .sweep.measured import Key, Measured, measured_recall
from .sweep.measured_setting import method_label
from .sweep.summary import COSTED, COSTS, Row, at_recall, summary
from .tables import fitting, for_terminal

__all__ = ["COLUMNS", "SORTS", "Standing", "as_csv", "as_markdown", "print_standings", "standings"]

# How sparse what is found should be, and how much should be found.
SPARSITIES, RECALLS = (0.8, 0.9, 0.95), (0.95, 0.99)
# A level counts as reached if it is missed by no more than rounding.
ROUNDING = 1e-9
# On other text a recall comes out as little lower as this; where it is lower still, no setting reaches it.
LOWER_THERE = 0.02
SHORTEST, LONGEST = "shortest", "longest"
VALUES = (
    "hypervolume", *(f"recall_at_{100 * level:.0f}" for level in SPARSITIES), *map(at_recall, RECALLS), *COSTS,
    f"{SHORTEST}_to_softmax", f"{LONGEST}_to_softmax",
)  # fmt: skip
COLUMNS = ("place", "teacher", "method", "inputs", *VALUES, f"{SHORTEST}_length", f"{LONGEST}_length")
# What standings can be ordered by; less is better of what finding costs alone.
SORTS, LOWER = VALUES, COSTS
HEADINGS = {
    "hypervolume": "volume", **{f"recall_at_{100 * level:.0f}": f"finds\nat {level:.0%}" for level in SPARSITIES},
    **{at_recall(level): f"skips\nat {level:.0%}" for level in RECALLS}, "cost_at_95": "cost",
    "bytes_at_95": "bytes",
    f"{SHORTEST}_to_softmax": "× softmax\nshortest", f"{LONGEST}_to_softmax": "× softmax\nlongest",
}  # fmt: skip
LEGEND = (
    "volume: the area under the frontier of sparsity and recall; finds at 90%: the recall with 90 % of pairs skipped",
    "skips at 95%: pairs skipped where 95 % of gold pairs are found, and what finding costs then, of all scores; "
    "bytes: what it reads about keys then, of all keys",
    "× softmax: times as fast as torch's softmax attention, set for a recall of 95 %, finding included; at the "
    "shortest and the longest length of each teacher's benchmark (sparsefinder bench RUN)",
    "–: no setting reaches it, or not timed, or not counted",
)


@dataclass(frozen=True)
class Standing:
    """A method with what it compares.

    teachers: its numbers on each teacher that it was measured on, by the name of the run.
    means: over these. place: 1 is the best; None where it was not measured on all teachers.
    """

    method: str
    inputs: str
    teachers: Mapping[str, Row]
    means: Row
    place: int | None = None

    @property
    def ours(self) -> bool:
        kind = methods().get(self.method)
        return kind is not None and kind.about.family == "ours"

    @property
    def label(self) -> str:
        return method_label(self.method, self.inputs)


def standings(folders: Sequence[RunFolder], sort: str = "hypervolume") -> list[Standing]:
    """All methods that compete, the best by a column first; below them what was not measured on every teacher."""
    if sort not in SORTS:
        raise InputError("--sort", sort, f"one of {', '.join(SORTS)}")
    by_run: dict[str, dict[Key, Row]] = {}
    for folder in folders:
        name = folder.path.resolve().name
        if name in by_run:
            raise InputError("RUN", f"{name} twice", "runs of different names, one of each teacher")
        by_run[name] = _of_run(folder)
    found = []
    for key in dict.fromkeys(key for rows in by_run.values() for key in rows):
        mine = {name: rows[key] for name, rows in by_run.items() if key in rows}
        found.append(Standing(*key, mine, {name: _mean(name, mine.values()) for name in VALUES}))

    def order(one: Standing) -> tuple[bool, bool, float]:
        value = one.means[sort]
        known = 0.0 if value is None else value
        return len(one.teachers) < len(folders), value is None, known if sort in LOWER else -known

    ordered = sorted(found, key=order)
    whole = sum(len(one.teachers) == len(folders) for one in ordered)
    return [
        Standing(one.method, one.inputs, one.teachers, one.means, number if number <= whole else None)
        for number, one in enumerate(ordered, 1)
    ]


def as_csv(found: Sequence[Standing]) -> str:
    """A row for each method and teacher, and one of their means, whose teacher is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in found:
        own = {"place": one.place, "method": one.method, "inputs": one.inputs}
        writer.writerow({**own, **one.means})
        writer.writerows({**own, "teacher": name, **row} for name, row in one.teachers.items())
    return text.getvalue()


def as_markdown(found: Sequence[Standing]) -> str:
    """The means as a table for a page of Markdown, our own methods in bold."""
    shown = _shown(found)
    lines = [["", "method", *(HEADINGS[name].replace("\n", " ").replace("%", " %") for name in shown)]]
    lines.append(["---"] * len(lines[0]))
    for one in found:
        label = f"**{one.label}**" if one.ours else one.label
        cells = [_cell(name, one.means[name]).replace("%", " %") for name in shown]
        lines.append([str(one.place or "–"), label, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(found: Sequence[Standing]) -> list[str]:
    # Where nothing was timed, columns that say so are in the way.
    return [name for name in VALUES if any(one.means[name] is not None for one in found)]


def print_standings(found: Sequence[Standing]) -> None:
    """The standings as a table that fits the terminal."""
    console = for_terminal()
    every = max((len(one.teachers) for one in found), default=0)
    console.print(f"{every} teacher{'' if every == 1 else 's'}, means over them")
    labels = [f"{one.place or '–':>2} {one.label}" for one in found]
    shown = _shown(found)
    columns = [[HEADINGS[name], *(_cell(name, one.means[name]) for one in found)] for name in shown]
    for table in fitting("   method", labels, columns, console):
        console.print(table)
    short = [f"{one.label} ({len(one.teachers)} of {every})" for one in found if one.place is None]
    if short:
        console.print(f"no place, as not measured on all teachers: {', '.join(short)}", style="dim")
    _print_legend(console)


def _print_legend(console: Console) -> None:
    for line in LEGEND:
        console.print(line, style="dim")


def _of_run(folder: RunFolder) -> dict[Key, Row]:
    """The numbers of every method that competes on one teacher."""
    recall = measured_recall(folder)
    if recall is None:
        raise InputError("RUN", folder.path, "runs that have points: `sparsefinder sweep RUN` measures them")
    times, found = _times(folder), {}
    for row in summary(folder):
        key = row["method"], row["inputs"]
        kind = methods().get(row["method"])
        if row["points"] and not (kind is not None and kind.about.family == "reference"):
            own = {name: row[name] for name in ("hypervolume", *map(at_recall, RECALLS), *COSTS)}
            found[key] = dict.fromkeys(COLUMNS[4:]) | own | _finds(recall, key) | times.get(key, {})
    return found


def _finds(recall: Measured, key: Key) -> Row:
    """The recall of a method at each sparsity."""
    places = recall.methods[key]
    values = np.stack([recall.sparsity[places], recall.value[places]], -1)
    return {f"recall_at_{100 * level:.0f}": quality_at(values, level - ROUNDING) for level in SPARSITIES}


def _times(folder: RunFolder) -> dict[Key, Row]:
    """How many times as fast as softmax each method is that was set for a recall and has it, finding included."""
    found: dict[Key, Row] = {}
    rows = [row for row in read_bench(folder) if not row["block"]]
    lengths = {row["length"] for row in rows}
    for row in rows:
        # Set for the recall that it is asked for elsewhere, and not for an exact result, which is another question.
        if row["wanted"] != COSTED or row["exact"] or row["method"] not in methods():
            continue
        if row["recall"] < COSTED - LOWER_THERE:
            continue
        mine = found.setdefault((row["method"], Entry.of_row(row).inputs), {})
        for name, length in ((SHORTEST, min(lengths)), (LONGEST, max(lengths))):
            if row["length"] == length:
                best = max(row["to_softmax"], mine.get(f"{name}_to_softmax", 0.0))
                mine |= {f"{name}_to_softmax": best, f"{name}_length": length}
    return found


def _mean(name: str, rows: Collection[Row]) -> float | None:
    values = [row[name] for row in rows]
    known = [value for value in values if value is not None]
    # Points from before bytes were counted: a mean of the others would be of other teachers than the cost.
    uncounted = name in COSTS and any(row[name] is None and row[at_recall(COSTED)] is not None for row in rows)
    if not known or uncounted:
        return None
    if name.endswith("_to_softmax"):
        # Ratios: twice as fast here and half as fast there is as fast.
        return geometric_mean(known)
    return fmean(known if name in COSTS else [0.0 if value is None else value for value in values])


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "hypervolume":
        return f"{value:.3f}"
    return f"{value:.2f}" if name.endswith("_to_softmax") else f"{100 * value:.1f}%"
