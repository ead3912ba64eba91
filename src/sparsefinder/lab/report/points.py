"""The points of a run as the charts of single heads take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ratios import grouped_means
from ..folder import RunFolder
from ..sweep import points as sweep
from ..sweep.measured import SETTING
from ..sweep.measured_setting import MeasuredSetting
from ..sweep.points import HEAD, Floats, Ints, numbered

__all__ = ["Head", "RecallPoints", "read_recall_points", "read_rows"]

Head = tuple[str, int, int]

SHOWN_RATIOS = ("sparsity", "recall", "gold_sparsity")


@dataclass(frozen=True, eq=False)
class RecallPoints:
    """Sparsity and recall of settings in heads: one row for each pair of them. Settings are as `Measured` has them."""

    settings: Sequence[MeasuredSetting]
    heads: Sequence[Head]
    setting: Ints
    head: Ints
    sparsity: Floats
    recall: Floats
    gold_sparsity: Floats

    @property
    def gold_by_head(self) -> Floats:
        return grouped_means(self.gold_sparsity, self.head, len(self.heads))


def read_recall_points(folder: RunFolder) -> RecallPoints | None:
    """The sparsity–recall points of a run; None if it has none."""
    table = sweep.read_points(folder, "recall", [*SETTING, *HEAD, *SHOWN_RATIOS])
    if not table.num_rows:
        return None
    settings, setting = numbered(table, SETTING)
    heads, head = numbered(table, HEAD)
    ratios = {name: table[name].to_numpy().astype(np.float64) for name in SHOWN_RATIOS}
    return RecallPoints([MeasuredSetting(*one) for one in settings], heads, setting, head, **ratios)


def read_rows(folder: RunFolder, name: str) -> list[dict[str, Any]]:
    """The rows of `points/timing`, say, which are few; none if the run has none."""
    return sweep.read_points(folder, name).to_pylist()
