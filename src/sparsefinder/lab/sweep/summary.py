"""What a sweep says of each method in a few numbers: its frontier, hypervolume, recall at gold sparsity, and so on."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np

from ...core.pareto import quality_at, sparsity_at
from ...files import whole_file
from ..folder import RunFolder
from .measured import Measured, measured_recall, measured_scores
from .points import Floats

__all__ = [
    "COLUMNS",
    "COSTED",
    "COSTS",
    "RECALLS",
    "Row",
    "at_recall",
    "measured",
    "point_row",
    "summary",
    "write_summary",
]

Row = dict[str, Any]
RECALLS = (0.8, 0.9, 0.95, 0.99)
# What finding costs is said of the sparsest setting of this recall.
COSTED = 0.95
# In multiplications, and in bytes that are read.
COSTS = ("cost_at_95", "bytes_at_95")
# The same mean may differ in its last bits where its parts are added in another order.
ROUNDING = 1e-9
# Of each point, besides its sparsity and value; in a model, recall is against the gold graphs that it had there.
RATIOS = ("recall", "precision", "full_recall", "empty_rows")
POINT = (
    *RATIOS, "gold_sparsity", "pooled_sparsity", *(f"pooled_{name}" for name in RATIOS), "decoding_sparsity",
    "mass_missed", "far_perplexity",
)  # fmt: skip


def at_recall(recall: float) -> str:
    """The column with the highest sparsity at a recall."""
    return f"sparsity_at_{100 * recall:.0f}"


COLUMNS = (
    "method", "inputs", "points", "sequences", "gold_sparsity", "hypervolume", "hypervolume_low", "hypervolume_high",
    "recall_at_gold", *map(at_recall, RECALLS), *COSTS, "metric", "scored", "score_sequences",
    "score_gold_sparsity", "score_at_gold", "score_hypervolume", "score_hypervolume_low", "score_hypervolume_high",
)  # fmt: skip


def summary(folder: RunFolder) -> list[Row]:
    """A row for each method and kind of inputs, the highest hypervolume of recall first; None for what there is not.

    points, sequences, gold_sparsity: how many settings were measured on the traces, on how many sequences, and how
    sparse gold graphs are there. hypervolume: of sparsity and recall, against (0, 0), with its bootstrap interval.
    recall_at_gold: the best recall among points at least as sparse as the gold graphs are. sparsity_at_80 …
    sparsity_at_99: the highest sparsity at such a recall. cost_at_95: the multiplications that finding takes then, as a
    share of those of all scores. bytes_at_95: the bytes about keys that it reads, as a share of those of the keys.
    scored, score_sequences, score_gold_sparsity: the first three for what was run inside the model. score_at_gold: the
    best score at that sparsity. score_hypervolume: of sparsity and the share of the full model's score.
    """
    return _rows(measured_recall(folder), measured_scores(folder))


def _rows(recall: Measured | None, scores: Measured | None) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    for key in {**(recall.methods if recall else {}), **(scores.methods if scores else {})}:
        row = rows[key] = {**dict.fromkeys(COLUMNS), "method": key[0], "inputs": key[1], "points": 0, "scored": 0}
        if recall is not None and key in recall.methods:
            row |= _of_recall(recall, key)
        if scores is not None and key in scores.methods:
            row |= _of_scores(scores, key)
    return sorted(rows.values(), key=lambda row: -(row["hypervolume"] or 0))


def _of_recall(recall: Measured, key: tuple[str, str]) -> Row:
    places = recall.methods[key]
    values = np.stack([recall.sparsity[places], recall.value[places]], -1)
    best = sparsity_at(values, COSTED)
    sparsest = places[(values[:, 0] == best) & (values[:, 1] >= COSTED)]
    return {
        "points": len(places), "sequences": recall.sequences, "gold_sparsity": recall.gold,
        **_volume("hypervolume", recall, key),
        "recall_at_gold": quality_at(values, recall.gold - ROUNDING),
        **{at_recall(wanted): sparsity_at(values, wanted) for wanted in RECALLS},
        **{name: _least(recall.columns[name.removesuffix("_at_95")][sparsest]) for name in COSTS},
    }  # fmt: skip


def _least(values: Floats) -> float | None:
    """The least that is known: points from before bytes were counted have none."""
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else None


def _of_scores(scores: Measured, key: tuple[str, str]) -> Row:
    places = scores.methods[key]
    values = np.stack([scores.sparsity[places], scores.upwards(scores.value[places])], -1)
    best = quality_at(values, scores.gold - ROUNDING)
    return {
        "metric": scores.measure, "scored": len(places), "score_sequences": scores.sequences,
        "score_gold_sparsity": scores.gold,
        "score_at_gold": None if best is None else float(scores.upwards(np.array(best))),
        **_volume("score_hypervolume", scores, key),
    }  # fmt: skip


def _volume(name: str, measured: Measured, key: tuple[str, str]) -> Row:
    low, high = measured.volume_interval(key) or (None, None)
    return {name: measured.volume(key), f"{name}_low": low, f"{name}_high": high}


def measured(folder: RunFolder) -> bool:
    """Whether there is anything to summarize."""
    return any(any((folder / "points" / which).glob("*.parquet")) for which in ("recall", "accuracy"))


def write_summary(folder: RunFolder) -> list[Row]:
    """`points.csv`, every point with whether it is on its method's frontier, and `summary.csv`, which is returned."""
    recall, scores = measured_recall(folder), measured_scores(folder)
    points: list[Row] = []
    for each in (recall, scores):
        if each is not None:
            points += [point_row(each, place) for places in each.methods.values() for place in places.tolist()]
    _write(folder, "points.csv", points)
    found = _rows(recall, scores)
    _write(folder, "summary.csv", found)
    return found


def point_row(measured: Measured, place: int) -> Row:
    """What points.csv has of a setting."""
    setting = measured.settings[place]
    return {
        "measure": measured.measure, "method": setting.method, "inputs": setting.inputs, "setting": setting.own,
        "window": setting.window, "globals": setting.globals, "sparsity": _known(measured.sparsity[place]),
        "value": _known(measured.value[place]), "value_low": _end(measured, 0, place),
        "value_high": _end(measured, 1, place), "frontier": int(measured.best[place]),
        **{name: _known(measured.columns[name][place]) if name in measured.columns else None for name in POINT},
        "sequences": measured.sequences,
    }  # fmt: skip


def _end(measured: Measured, end: int, place: int) -> float | None:
    """Where the interval of a value begins or ends."""
    return None if measured.within is None else _known(measured.within[end, place])


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _write(folder: RunFolder, name: str, rows: list[Row]) -> None:
    with whole_file(folder / name) as path, path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["method"])
        writer.writeheader()
        writer.writerows(rows)
