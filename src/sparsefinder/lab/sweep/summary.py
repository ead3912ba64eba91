"""What a sweep says of each method in a few numbers: its frontier, hypervolume, recall at gold sparsity, and so on."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...core.pareto import frontier, hypervolume, quality, quality_at, sparsity_at
from ...files import whole_file
from ..folder import RunFolder
from .points import HEAD, averaged, mean_gold, numbered, read_points
from .settings import FULL

__all__ = ["print_summary", "summary", "write_summary"]

Row = dict[str, Any]
RECALLS = (0.8, 0.9, 0.95, 0.99)
# What finding costs is said of the sparsest setting of this recall.
COSTED = 0.95
CAPTION = """≥95%: the highest sparsity at such a recall; cost: what finding multiplies then, of all scores;
at gold: the best at the sparsity of the gold graphs; volume: of sparsity and recall, or of sparsity and score"""


def summary(folder: RunFolder) -> list[Row]:
    """A row for each method and kind of inputs, the highest hypervolume of recall first; None for what there is not.

    hypervolume: of sparsity and recall, against (0, 0). recall_at_gold: the best recall among points at least as sparse
    as the gold graphs are. sparsity_at_80 … sparsity_at_99: the highest sparsity at such a recall. cost_at_95: the
    multiplications that finding takes then, as a share of those of all scores. score_at_gold: the best score at that
    sparsity. score_hypervolume: of sparsity and the share of the full model's score.
    """
    rows: dict[tuple[str, str], Row] = {}
    measured = read_points(folder, "recall")
    gold = mean_gold(measured["gold_sparsity"].to_numpy(), numbered(measured, HEAD)[1])
    for key, points in _by_method(averaged(measured).to_pylist()):
        values = _pairs(points, "recall")
        rows[key] = {
            **dict(zip(("method", "inputs"), key, strict=True)),
            "points": len(points),
            "hypervolume": hypervolume(values),
            "recall_at_gold": quality_at(values, gold),
            **{_at(wanted): sparsity_at(values, wanted) for wanted in RECALLS},
            "cost_at_95": _cost(points, values),
            "metric": None, "score_at_gold": None, "score_hypervolume": None,
        }  # fmt: skip
    better, gold, scored = _scored(folder)
    for key, points in _by_method(scored):
        if key not in rows:
            rows[key] = {**dict.fromkeys(_COLUMNS), "method": key[0], "inputs": key[1], "points": 0}
        sparse = [one["score"] for one in points if one["sparsity"] >= gold and np.isfinite(_number(one["score"]))]
        rows[key] |= {
            "metric": points[0]["metric"],
            "score_at_gold": (max if better == "higher" else min)(sparse, default=None),
            "score_hypervolume": hypervolume(_pairs(points, "quality")),
        }
    return sorted(rows.values(), key=lambda row: -(row["hypervolume"] or 0))


def _at(recall: float) -> str:
    return f"sparsity_at_{100 * recall:.0f}"


def _cost(points: list[Row], values: np.ndarray[Any, Any]) -> float | None:
    """What finding costs in the sparsest setting that has the recall; None if none has it."""
    best = sparsity_at(values, COSTED)
    found = [one["cost"] for one in points if one["sparsity"] == best and (one["recall"] or 0) >= COSTED]
    return min(found, default=None)


_COLUMNS = (
    "method", "inputs", "points", "hypervolume", "recall_at_gold", *map(_at, RECALLS), "cost_at_95", "metric",
    "score_at_gold", "score_hypervolume",
)  # fmt: skip


def write_summary(folder: RunFolder) -> list[Row]:
    """`points.csv`, every point with whether it is on its method's frontier, and `summary.csv`, which is returned."""
    rows: list[Row] = []
    for measure, points in (
        ("recall", averaged(read_points(folder, "recall")).to_pylist()),
        ("quality", _scored(folder)[-1]),
    ):
        for _, some in _by_method(points):
            ahead = set(frontier(_pairs(some, measure)).tolist())
            rows += [
                {
                    "measure": point.get("metric", measure),
                    **{name: point[name] for name in ("method", "inputs", "setting", "window", "globals", "sparsity")},
                    "value": point.get("score", point.get("recall")),
                    "frontier": int(place in ahead),
                }
                for place, point in enumerate(some)
            ]
    _write(folder, "points.csv", rows)
    found = summary(folder)
    _write(folder, "summary.csv", found)
    return found


def print_summary(folder: RunFolder) -> None:
    """The summary as a table on the terminal, and as files."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    rows = write_summary(folder)
    metric = next((row["metric"] for row in rows if row["metric"]), None)
    table = Table(
        box=SIMPLE,
        title=f"{folder.path.name}: sparsity against recall" + (f" and {metric}" if metric else ""),
        caption=CAPTION,
    )
    # The rest is in summary.csv: a terminal is narrow.
    shown = [name for name in _COLUMNS if name not in ("points", "metric") and (metric or "score" not in name)]
    for name in shown:
        words = name in ("method", "inputs")
        table.add_column(_heading(name), justify="left" if words else "right", no_wrap=words)
    for row in rows:
        table.add_row(*(_shown(row[name]) for name in shown))
    # Where the output goes to a file there is no width to go by, and 80 places are too few.
    console = Console()
    Console(width=console.width if console.is_terminal else 120).print(table)


def _heading(column: str) -> str:
    """A column of the table in a word or two."""
    if column.startswith("sparsity_at_"):
        return f"≥{column.rpartition('_')[2]}%"
    words = {"hypervolume": "volume", "recall_at_gold": "recall\nat gold", "cost_at_95": "cost"}
    return words.get(column, column.replace("_", "\n", 1).replace("_", " ").replace("hypervolume", "volume"))


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _by_method(points: Iterable[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    """The points of each method and kind of inputs."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for point in points:
        groups.setdefault((point["method"], point["inputs"]), []).append(point)
    return list(groups.items())


def _scored(folder: RunFolder) -> tuple[str, float, list[Row]]:
    """Which way a score is better, how sparse the full model's gold graphs are, and points with their share of it."""
    points: list[Row] = read_points(folder, "accuracy").to_pylist()
    full = next((point for point in points if point["method"] == FULL.method), None)
    if full is None:
        return "higher", 0.0, []
    better = json.loads((folder / "teacher/score.json").read_text(encoding="utf-8"))["better"]
    for point in points:
        point["quality"] = quality(point["score"], full["score"], better)
    return better, full["own_gold_sparsity"], points


def _pairs(points: Iterable[Mapping[str, Any]], measure: str) -> np.ndarray[Any, Any]:
    return np.array([[_number(point["sparsity"]), _number(point[measure])] for point in points], np.float64)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _write(folder: RunFolder, name: str, rows: list[Row]) -> None:
    with whole_file(folder / name) as path, path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["method"])
        writer.writeheader()
        writer.writerows(rows)
