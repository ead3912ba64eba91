"""Means over heads hold against a loop that says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from sparsefinder.lab.report.points import MeasuredSetting, read_recall_points

from .made_up import Sizes, make_run


def setting(row: dict[str, Any]) -> MeasuredSetting:
    return MeasuredSetting(row["method"], row["inputs"], row["setting"], row["window"], row["globals"])


def test_points_are_read_and_averaged_over_heads(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Sizes(examples=0))
    points = read_recall_points(folder)
    assert points is not None
    rows = parquet.read_table(folder / "points/recall").to_pylist()
    recalls = points.mean(points.recall)
    for place in range(0, len(points.settings), 17):
        mine = [row["recall"] for row in rows if setting(row) == points.settings[place]]
        assert np.isclose(recalls[place], np.mean(mine))
    gold = {(row["layer"], row["head"]): row["gold_sparsity"] for row in rows}
    assert np.isclose(points.gold, np.mean(list(gold.values())))
