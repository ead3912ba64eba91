"""Means over heads hold against a loop that says what they are, and page and summary have the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from sparsefinder.core.pareto import quality_at
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.leaderboard import standings
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.charts import fixed_window
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.points import RecallPoints, read_recall_points, read_rows
from sparsefinder.lab.report.rankings import methods_table
from sparsefinder.lab.sweep import points as sweep
from sparsefinder.lab.sweep.measured import measured_recall
from sparsefinder.lab.sweep.measured_setting import MeasuredSetting
from sparsefinder.lab.sweep.printed import print_summary
from sparsefinder.lab.sweep.summary import summary

from .made_up import Sizes, make_run


def setting(row: dict[str, Any]) -> MeasuredSetting:
    return MeasuredSetting(row["method"], row["inputs"], row["setting"], row["window"], row["globals"])


def test_points_are_read_and_averaged_over_heads(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Sizes(examples=0))
    points = measured_recall(folder)
    assert points is not None
    rows = parquet.read_table(folder / "points/recall").to_pylist()
    recalls = points.value
    for place in range(0, len(points.settings), 17):
        mine = [row["recall"] for row in rows if setting(row) == points.settings[place]]
        assert np.isclose(recalls[place], np.mean(mine))
    gold = {(row["layer"], row["head"]): row["gold_sparsity"] for row in rows}
    assert np.isclose(points.gold, np.mean(list(gold.values())))


@pytest.fixture
def ragged(tmp_path: Path) -> RunFolder:
    """A run in which some ratios are undefined in a head, some in all, and some heads were not measured."""
    folder = make_run(tmp_path / "run", Sizes(examples=0))
    file = folder / "points/recall/part-0.parquet"
    table = parquet.read_table(file)
    recall = table["recall"].to_numpy().copy()
    recall[::3] = np.nan
    recall[:8] = np.nan
    table = table.set_column(table.schema.get_field_index("recall"), "recall", pa.array(recall))
    parquet.write_table(table.take(np.flatnonzero(np.arange(len(recall)) % 11)), file)
    return folder


def test_page_and_summary_say_the_same(ragged: RunFolder) -> None:
    content = Content(ragged, load_recipe(ragged / "recipe.yaml"))
    cloud = content.recall
    assert cloud is not None
    rows = {setting(row): row for row in sweep.averaged(sweep.read_points(ragged, "recall")).to_pylist()}
    assert list(rows) == list(cloud.settings)
    undefined = [row["recall"] is None for row in rows.values()]
    assert any(undefined)
    assert np.array_equal(np.isnan(cloud.y), undefined)
    assert np.array_equal(cloud.x, [row["sparsity"] for row in rows.values()])
    assert np.array_equal(cloud.y[~np.isnan(cloud.y)], [row["recall"] for row in rows.values() if row["recall"]])
    lines = {(line.series.method, line.series.inputs): line for line in methods_table(cloud, None, None)}
    said = {(row["method"], row["inputs"]): row for row in summary(ragged) if row["points"]}
    assert set(lines) == set(said)
    for key, row in said.items():
        line = lines[key]
        assert line.points == row["points"]
        assert line.hypervolume == row["hypervolume"]
        reached = [None if at is None else at.sparsity for at in line.at_recall]
        assert reached == [row[f"sparsity_at_{recall}"] for recall in (80, 90, 95, 99)]
        assert row["cost_at_95"] == (None if line.at_recall[2] is None else line.at_recall[2].cost)
        mine = [place for place, one in enumerate(cloud.settings) if (one.method, one.inputs) == key]
        assert row["recall_at_gold"] == quality_at(cloud.points[mine], cloud.measured.gold - 1e-9)


def test_points_from_before_bytes_were_counted_are_read_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", Sizes(layers=1, heads=2, settings=5, examples=0))
    now = summary(folder)
    file = folder / "points/recall/part-0.parquet"
    parquet.write_table(parquet.read_table(file).drop_columns(["bytes"]), file)
    assert summary(folder) == [row | {"bytes_at_95": None} for row in now]
    assert any(row["bytes_at_95"] for row in now)
    (one, *_) = standings([folder])
    assert one.means["cost_at_95"] is not None
    assert one.means["bytes_at_95"] is None
    # What was not counted is not what was never reached.
    print_summary(folder, every=True)
    assert "–: not measured" in capsys.readouterr().out


def test_without_sequences_there_are_means_and_no_intervals(tmp_path: Path) -> None:
    """As in the middle of a sweep."""
    folder = make_run(tmp_path / "run", Sizes(layers=1, heads=2, settings=2, examples=0))
    whole = measured_recall(folder)
    (folder / "points/sequences/part-0.parquet").unlink()
    bare = measured_recall(folder)
    assert whole is not None
    assert bare is not None
    assert whole.draws is not None
    assert bare.draws is None
    assert np.array_equal(whole.value, bare.value)
    assert all(row["hypervolume"] and row["hypervolume_low"] is None for row in summary(folder) if row["points"])


@pytest.mark.parametrize(
    ("task", "windows", "fixed"),
    [
        ("translation", (0, 3, 11, 25), 11),
        ("masked-lm", (0, 3, 11, 25), 25),
        ("masked-lm", (0, 3, 11), 11),
        ("translation", (0, 3, 25), 25),
        ("translation", (0, 3), 3),
        ("masked-lm", (0,), None),
    ],
)
def test_the_window_of_single_heads_is_the_papers_for_the_task(
    task: str, windows: tuple[int, ...], fixed: int | None
) -> None:
    """Figures 8 and 9, of translation, have a window of 11; Figure 10, of masked language models, one of 25."""
    settings = [MeasuredSetting("kmeans", "projected", "{}", window, 1) for window in windows]
    none, place = np.zeros(0), np.zeros(0, np.int64)
    assert fixed_window(RecallPoints(settings, [], place, place, none, none, none), task) == fixed


def test_fixed_patterns_that_are_off_are_not_said() -> None:
    own = '{"block": 1, "globals": 0, "random_blocks": 8, "window": 0}'
    words = MeasuredSetting("bigbird", "none", own, 101, 1).words()
    assert words.count("window") == words.count("global") == 1
    assert "window 101" in words


def test_a_run_without_points_has_none(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_recall_points(folder) is None
    assert read_rows(folder, "accuracy") == []
    assert summary(folder) == []
