"""The points of a run as arrays: read from Parquet, averaged over heads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from ..folder import RunFolder

__all__ = ["MeasuredSetting", "RecallPoints", "read_recall_points", "read_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Head = tuple[str, int, int]

SETTING = ("method", "inputs", "setting", "window", "globals")
HEAD = ("kind", "layer", "head")
# What is said of a setting that has no parameters.
NO_PARAMETERS = "no parameters"
SHOWN_RATIOS = ("sparsity", "recall", "gold_sparsity")


@dataclass(frozen=True, order=True)
class MeasuredSetting:
    """One setting of a method, united with a window and global tokens."""

    method: str
    inputs: str
    own: str
    window: int
    globals: int

    def words(self) -> str:
        """The setting as a reader wants it: `clusters 8, top k 1, window 11, 1 global`."""
        return ", ".join(part for part in (own_words(self.own), *extra_words(self.window, self.globals)) if part)


@dataclass(frozen=True, eq=False)
class RecallPoints:
    """Sparsity and recall of settings in heads: one row for each pair of them."""

    settings: Sequence[MeasuredSetting]
    heads: Sequence[Head]
    setting: Ints
    head: Ints
    sparsity: Floats
    recall: Floats
    gold_sparsity: Floats
    sequences: int

    def mean(self, values: Floats) -> Floats:
        """The mean over heads for each setting (macro); what is not a number counts for nothing."""
        return _means(values, self.setting, len(self.settings))

    @property
    def gold(self) -> float:
        """The mean gold sparsity of the heads."""
        return float(np.nanmean(self.gold_by_head))

    @property
    def gold_by_head(self) -> Floats:
        return _means(self.gold_sparsity, self.head, len(self.heads))


def read_recall_points(folder: RunFolder) -> RecallPoints | None:
    """The sparsity–recall points of a run; None if it has none."""
    files = _files(folder, "recall")
    if not files:
        return None
    table = parquet.read_table(files, columns=[*SETTING, *HEAD, *SHOWN_RATIOS, "sequences"])
    settings, setting = _numbered(table, SETTING)
    heads, head = _numbered(table, HEAD)
    ratios = {name: table[name].to_numpy().astype(np.float64) for name in SHOWN_RATIOS}
    sequences = int(table["sequences"].to_numpy().max()) if table.num_rows else 0
    return RecallPoints(
        [MeasuredSetting(*one) for one in settings], heads, setting, head, sequences=sequences, **ratios
    ) if table.num_rows else None  # fmt: skip


def read_rows(folder: RunFolder, name: str) -> list[dict[str, Any]]:
    """The rows of `points/accuracy` or `points/timing`, which are few; none if the run has none."""
    files = _files(folder, name)
    return parquet.read_table(files).to_pylist() if files else []


def own_words(setting: str) -> str:
    """`{"top_k": 1}` as `top k 1`."""
    parameters: Mapping[str, Any] = json.loads(setting) if setting else {}
    return ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in parameters.items())


def extra_words(window: int, count: int) -> list[str]:
    """The fixed patterns that a setting is united with, in words."""
    return [part for part in (f"window {window}" if window else "", f"{count} global" if count else "") if part]


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _files(folder: RunFolder, name: str) -> list[Path]:
    return sorted((folder / "points" / name).glob("*.parquet"))


def _numbered(table: Any, columns: Sequence[str]) -> tuple[list[Any], Ints]:
    """The distinct combinations of some columns, sorted, and which one each row has."""
    code = np.zeros(table.num_rows, dtype=np.int64)
    names: list[list[Any]] = []
    for column in columns:
        encoded = table[column].combine_chunks().dictionary_encode()
        names.append(encoded.dictionary.to_pylist())
        code = code * max(1, len(names[-1])) + encoded.indices.to_numpy()
    found, which = np.unique(code, return_inverse=True)
    combinations = []
    for one in found.tolist():
        parts = []
        for values in reversed(names):
            one, place = divmod(one, max(1, len(values)))
            parts.append(values[place])
        combinations.append(tuple(reversed(parts)))
    order = sorted(range(len(combinations)), key=combinations.__getitem__)
    place_of = np.empty(len(order), dtype=np.int64)
    place_of[order] = np.arange(len(order))
    return [combinations[one] for one in order], place_of[which]


def _means(values: Floats, group: Ints, count: int) -> Floats:
    real = np.isfinite(values)
    sums = np.bincount(group[real], values[real], minlength=count)
    counts = np.bincount(group[real], minlength=count)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
