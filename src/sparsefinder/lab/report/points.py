"""The points of a run as arrays, averaged over heads as the sweep does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ratios import grouped_means
from ..folder import RunFolder
from ..sweep import points as sweep
from ..sweep.points import HEAD, Floats, Ints, mean_gold, numbered
from ..sweep.settings import WANTED

__all__ = ["Floats", "Ints", "MeasuredSetting", "RecallPoints", "read_recall_points", "read_rows"]

Head = tuple[str, int, int]

SETTING = ("method", "inputs", "setting", "window", "globals")
# What is said of a setting that has no parameters.
NO_PARAMETERS = "no parameters"
SHOWN_RATIOS = ("sparsity", "recall", "gold_sparsity", "cost")


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
    cost: Floats
    sequences: int

    def mean(self, values: Floats) -> Floats:
        """The mean over heads for each setting (macro); what is not a number is left out."""
        return grouped_means(values, self.setting, len(self.settings))

    @property
    def gold(self) -> float:
        """The mean gold sparsity of the heads."""
        return mean_gold(self.gold_sparsity, self.head)

    @property
    def gold_by_head(self) -> Floats:
        return grouped_means(self.gold_sparsity, self.head, len(self.heads))


def read_recall_points(folder: RunFolder) -> RecallPoints | None:
    """The sparsity–recall points of a run; None if it has none."""
    table = sweep.read_points(folder, "recall", [*SETTING, *HEAD, *SHOWN_RATIOS, "sequences"])
    settings, setting = numbered(table, SETTING)
    heads, head = numbered(table, HEAD)
    ratios = {name: table[name].to_numpy().astype(np.float64) for name in SHOWN_RATIOS}
    sequences = int(table["sequences"].to_numpy().max()) if table.num_rows else 0
    return RecallPoints(
        [MeasuredSetting(*one) for one in settings], heads, setting, head, sequences=sequences, **ratios
    ) if table.num_rows else None  # fmt: skip


def read_rows(folder: RunFolder, name: str) -> list[dict[str, Any]]:
    """The rows of `points/accuracy` or `points/timing`, which are few; none if the run has none."""
    return sweep.read_points(folder, name).to_pylist()


def own_words(setting: str) -> str:
    """`{"top_k": 1}` as `top k 1`."""
    parameters: Mapping[str, Any] = json.loads(setting) if setting else {}
    return ", ".join(_in_words(name, value) for name, value in parameters.items())


def _in_words(name: str, value: Any) -> str:
    if name in WANTED:
        return f"set for {name} {_number(value)}"
    return f"{name.replace('_', ' ')} {_number(value)}"


def extra_words(window: int, count: int) -> list[str]:
    """The fixed patterns that a setting is united with, in words."""
    return [part for part in (f"window {window}" if window else "", f"{count} global" if count else "") if part]


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
