"""The summary of a sweep on the terminal: a table that fits 80 columns, or CSV; and what a run found in five lines."""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Container, Sequence

from ...errors import InputError
from ...finders import finder_class
from ..folder import RunFolder
from ..tables import FIT, fitting, for_terminal
from .measured import Key, Measured, measured_recall, measured_scores
from .points import read_points
from .settings import FULL, SOFTMAX
from .summary import COLUMNS, COSTED, COSTS, Row, at_recall, write_summary

__all__ = ["closing", "print_summary", "summary_csv"]

SHOWN = (at_recall(0.9), at_recall(0.95), at_recall(0.99), "recall_at_gold", "score_at_gold", "hypervolume")
EVERY = (
    *map(at_recall, (0.8, 0.9, 0.95, 0.99)), *COSTS, "recall_at_gold", "hypervolume", "score_at_gold",
    "score_hypervolume",
)  # fmt: skip
LEGEND = {
    "skips": "skips at 95%: the most pairs not computed where 95 % of the gold pairs are found",
    "gold": "at gold: the best that is at least as sparse as the teacher's own graphs",
    "cost": "cost, bytes: what finding multiplies, as a share of what all scores take, and what it reads, of all keys",
    "volume": "volume: the area under the frontier of sparsity and recall; 1 is all for nothing",
}
NOT_REACHED, NOT_MEASURED = "never", "–"


def print_summary(folder: RunFolder, sort: str = "hypervolume", every: bool = False) -> None:
    """The methods of a run as a table: how sparse they are at a recall, and what they keep at the teacher's sparsity.

    sort: a column of summary.csv. every: also what costs width.
    """
    rows, scores = _sorted(write_summary(folder), sort), measured_scores(folder)
    metric = None if scores is None else scores.measure
    console = for_terminal(120 if every else FIT)
    for line in _full(measured_recall(folder), scores):
        console.print(line)
    rows = [row for row in rows if row["method"] != FULL.method]
    digits = 0 if scores is None else _digits(scores.full)
    shown = [name for name in (EVERY if every else SHOWN) if metric or "score" not in name]
    columns = [[_heading(name, metric), *(_cell(row, name, digits) for row in rows)] for name in shown]
    for table in fitting("method", [_label(row) for row in rows], columns, console):
        console.print(table)
    for line in _legend({cell for _, *cells in columns for cell in cells}, every):
        console.print(line, style="dim")


def summary_csv(folder: RunFolder, sort: str = "hypervolume") -> str:
    """All columns of all methods as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_sorted(write_summary(folder), sort))
    return text.getvalue()


def closing(folder: RunFolder) -> list[str]:
    """What a run found, for people: the teacher, what finding its pairs saves, what that costs the model, and time."""
    rows, recall, scores = write_summary(folder), measured_recall(folder), measured_scores(folder)
    own = [row for row in rows if finder_class(row["method"]).about.family != "reference"]
    full = f"{folder.path.name}: full entmax attention"
    full += "" if scores is None else f" has {scores.measure} {scores.full:.4g}"
    lines = [full if recall is None else f"{full} and gives {_percent(recall.gold)} of the pairs no weight"]
    if recall is not None:
        said = [f"{_name(row)} {_percent(row[at_recall(COSTED)])}" for row in _first(own, at_recall(COSTED))]
        lines += [
            f"Pairs skipped while {100 * COSTED:.0f} % of those with weight are found: "
            f"{', '.join(said) or 'no method gets there'}"
        ]
    inside = [] if scores is None else [_inside(scores, row) for row in _first(own, at_recall(COSTED), scores.methods)]
    return [*lines, *inside[:1], *_times(folder), f"Every method: sparsefinder points {folder.path}"]


def _inside(scores: Measured, row: Row) -> str:
    """What the model's score is with a method that finds most of its pairs, as the page says it."""
    place = scores.sparsest((row["method"], row["inputs"]), COSTED)
    found, skipped, digits = scores.columns["recall"][place], scores.sparsity[place], _digits(scores.full)
    most = "as many" if found >= COSTED else f"{_percent(found)} at most"
    value, full = (f"{one:.{digits}f}" for one in (scores.value[place], scores.full))
    return (
        f"Inside the model {_name(row)} finds {most} and skips {_percent(skipped)}: {scores.measure} {value} in place "
        f"of {full}"
    )


def _full(recall: Measured | None, scores: Measured | None) -> list[str]:
    """The full model, which all are compared with, and how sparse it is itself, where each was measured."""
    lines = []
    if scores is not None:
        lines += [f"full attention: {scores.measure} {scores.full:.4g} ({scores.sequences:,} sequences)"]
    for one, where in ((recall, "of the traces"), (scores, f"that {scores and scores.measure} is measured on")):
        if one is not None:
            lines += [f"gold graphs: {_percent(one.gold)} sparse on the {one.sequences:,} sequences {where}"]
    return lines


def _times(folder: RunFolder) -> list[str]:
    """The fastest of the block variants, beside full attention in the same unit."""
    rows = read_points(folder, "timing").to_pylist()
    names = {FULL.method: "full entmax", SOFTMAX.method: "softmax"}
    found = []
    for row in rows:
        if row["method"] not in names:
            beside = {each["method"]: each["seconds"] / row["seconds"] for each in rows if _unit(each) == _unit(row)}
            if FULL.method in beside:
                found.append(({name: beside[name] for name in names if name in beside}, row))
    if not found:
        return []
    ratios, row = max(found, key=lambda each: each[0][FULL.method])
    times = [f"{ratio:.2f} times as fast as {names[name]}" for name, ratio in ratios.items()]
    slower = "" if max(ratios.values()) > 1 else ": finding takes longer than it saves at this length"
    blocks = f"{row['blocks']} block{'' if row['blocks'] == 1 else 's'} of {row['block']}"
    fastest = f"{finder_class(row['method']).about.label} ({blocks})"
    return [f"Of what was timed in the model, {fastest} is the fastest: {', '.join(times)}{slower}"]


def _unit(row: Row) -> tuple[int, int]:
    return row["block"], row["blocks"]


def _first(rows: Sequence[Row], column: str, among: Container[Key] | None = None) -> list[Row]:
    """The three best methods that have a value, each once, and the window, which everybody knows."""
    best: dict[str, Row] = {}
    for row in sorted((row for row in rows if row[column] is not None), key=lambda row: -row[column]):
        if among is None or (row["method"], row["inputs"]) in among:
            best.setdefault(row["method"], row)
    every = list(best.values())
    return every[:3] + [row for row in every[3:] if row["method"] == "window"]


def _sorted(rows: list[Row], column: str) -> list[Row]:
    if column not in COLUMNS:
        near = difflib.get_close_matches(column, COLUMNS, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError("--sort", f"{column}{hint}", f"a column of summary.csv: {', '.join(COLUMNS)}")
    lower = column in ("method", "inputs", *COSTS) or (
        column == "score_at_gold" and any(row["metric"] == "perplexity" for row in rows)
    )
    known = sorted((row for row in rows if row[column] is not None), key=lambda row: row[column], reverse=not lower)
    return known + [row for row in rows if row[column] is None]


def _label(row: Row) -> str:
    """The name, with the vectors that are compared where they are not those that it takes by itself."""
    usual = finder_class(row["method"]).about.inputs[0]
    return row["method"] if row["inputs"] in (usual, "none") else f"{row['method']} ({row['inputs']})"


def _name(row: Row) -> str:
    label = finder_class(row["method"]).about.label
    return f"a {label}" if row["method"] == "window" else label


def _heading(column: str, metric: str | None) -> str:
    if column.startswith("sparsity_at_"):
        return f"skips\nat {column.rpartition('_')[2]}%"
    return {
        "hypervolume": "volume", "recall_at_gold": "recall\nat gold", "cost_at_95": "cost\nat 95%",
        "bytes_at_95": "bytes\nat 95%",
        "score_at_gold": f"{metric}\nat gold", "score_hypervolume": f"volume of\n{metric}",
    }[column]  # fmt: skip


def _digits(full: float) -> int:
    """Decimals of scores, so that all have the same: four digits of the full model's."""
    return max(0, 3 - max(0, math.floor(math.log10(full)))) if full > 0 else 2


def _cell(row: Row, column: str, digits: int) -> str:
    value = row[column]
    if value is None:
        measured = row["scored"] if column.startswith("score") else row["points"]
        # Points from before bytes were counted reach a recall, and have none.
        uncounted = column in COSTS and row[at_recall(COSTED)] is not None
        return NOT_REACHED if measured and not uncounted else NOT_MEASURED
    if column == "score_at_gold":
        return f"{value:.{digits}f}"
    return f"{value:.3f}" if "volume" in column else _percent(value, "")


def _legend(cells: set[str], every: bool) -> list[str]:
    marks = {NOT_REACHED: "no setting reaches it", NOT_MEASURED: "not measured"}
    said = [f"{mark}: {words}" for mark, words in marks.items() if mark in cells]
    return [*(words for key, words in LEGEND.items() if every or key != "cost"), *(["; ".join(said)] if said else [])]


def _percent(share: float, space: str = " ") -> str:
    return f"{100 * share:.1f}{space}%"
