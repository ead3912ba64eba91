"""What predicting costs the model: numbers that can be looked up in points.csv, over one fit and several."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from sparsefinder import InputError
from sparsefinder.lab.cli import app
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.report.figures_look import skipped_axis
from sparsefinder.lab.report.figures_scores import PERCENT_TICKS, POINTS_TICKS, draw_panel
from sparsefinder.lab.scores import Cost, teachers
from sparsefinder.lab.sweep.summary import write_summary

from .report.grounds import assert_for_both_grounds
from .report.made_up import Sizes, make_run

SMALL = Sizes(layers=1, heads=2, settings=5, examples=0)
Row = dict[str, str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    """Two fits to a masked language model, and a translator."""
    path = tmp_path_factory.mktemp("runs")
    made = (("one", 0, "perplexity"), ("two", 1, "perplexity"), ("translator", 0, "BLEU"))
    return [make_run(path / name, SMALL, timing=False, seed=seed, metric=metric) for name, seed, metric in made]


def scores_of(folder: RunFolder) -> tuple[Row, dict[tuple[str, ...], Row]]:
    """The rows of points.csv that are scores: that of full attention, and those of all settings."""
    write_summary(folder)
    with (folder / "points.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] != "recall"]
    (full,) = [row for row in rows if row["method"] == "full"]
    names = ("method", "inputs", "setting", "window", "globals")
    return full, {tuple(row[name] for name in names): row for row in rows if row is not full}


def key(cost: Cost) -> tuple[str, ...]:
    one = cost.setting
    return one.method, one.inputs, one.own, str(one.window), str(one.globals)


def said(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["scores", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_changes_are_those_of_the_points(runs: list[RunFolder]) -> None:
    several, translator = teachers(runs)
    assert [*several.fits] == ["one", "two"]
    for teacher, folders in ((several, runs[:2]), (translator, runs[2:])):
        measured = [scores_of(folder) for folder in folders]
        assert {key(one) for one in teacher.costs} == {*measured[0][1]}
        for one in teacher.costs:
            rows = [rows[key(one)] for _, rows in measured]
            own = [(float(row["value"]), float(full["value"])) for row, (full, _) in zip(rows, measured, strict=True)]
            changes = [value / full - 1 if teacher is several else value - full for value, full in own]
            assert one.changes == pytest.approx(changes)
            assert one.skipped == pytest.approx(sum(float(row["sparsity"]) for row in rows) / len(rows))
            assert one.found == pytest.approx(sum(float(row["recall"]) for row in rows) / len(rows))


def test_the_interval_is_that_of_the_fit_that_did_worst(runs: list[RunFolder]) -> None:
    (several,) = teachers(runs[:2])
    alone = [{key(one): one for one in teachers([run])[0].costs} for run in runs[:2]]
    worse = 0
    for one in several.costs:
        worst = max((each[key(one)] for each in alone), key=lambda cost: cost.changes[0])
        assert one.within == worst.within
        worse += worst is alone[1][key(one)]
    # Not always that of the first.
    assert worse


def test_best_is_what_no_other_beats_in_both(runs: list[RunFolder]) -> None:
    for teacher in teachers(runs):
        sign = 1 if teacher.relative else -1
        for one in teacher.costs:
            harm = sign * sum(one.changes)
            beaten = any(
                other.skipped >= one.skipped
                and sign * sum(other.changes) <= harm
                and (other.skipped, sum(other.changes)) != (one.skipped, sum(one.changes))
                for other in teacher.costs
            )
            assert one.best == (not beaten)


def test_settings_stand_by_method_from_the_densest_to_the_sparsest(runs: list[RunFolder]) -> None:
    for teacher in teachers(runs):
        methods = [key(one)[:2] for one in teacher.costs]
        assert methods == sorted(methods, key=methods.index)
        for one, after in itertools.pairwise(teacher.costs):
            assert one.skipped <= after.skipped or key(one)[:2] != key(after)[:2]


def changed(run: RunFolder, column: str, values: dict[tuple[str, float], Any]) -> list[dict[str, Any]]:
    """Change a column of a run's scores where method and sparsity are as said; the rows that are there then."""
    file = run / "points/accuracy/part-0.parquet"
    table = parquet.read_table(file)
    rows = [row | {column: values.get((row["method"], row["sparsity"]), row[column])} for row in table.to_pylist()]
    parquet.write_table(pyarrow.Table.from_pylist(rows, table.schema), file)
    return rows


def test_far_words_are_told_where_they_were_measured(tmp_path: Path) -> None:
    run = make_run(tmp_path / "far", SMALL, timing=False)
    far = {
        (row["method"], row["sparsity"]): json.dumps({"far perplexity": 20.0 if row["method"] == "full" else 25.0})
        for row in changed(run, "details", {})
    }
    changed(run, "details", far)
    (teacher,) = teachers([run])
    assert {one.far for one in teacher.costs} == {(0.25,)}
    assert "of far words 20.00" in said(run.path)
    assert "+25 %" in said(run.path, "--markdown")


def test_the_terminal_fits_and_says_every_setting(runs: list[RunFolder]) -> None:
    output = said(*(run.path for run in runs), "--only", "sketch,longformer")
    assert max(map(len, output.splitlines())) <= 80
    assert "fits: one, two" in output
    # What is the same everywhere is said once; Longformer's own random tokens are another thing.
    assert " ".join(output.split()).count("1 global token") == len(teachers(runs))
    assert "globals=20 + window 11" in output
    assert "Routing" not in output


def test_markdown_has_a_line_for_each_setting_the_best_in_bold(runs: list[RunFolder]) -> None:
    (teacher,) = teachers(runs[:2])
    heading, _, *lines = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in said(runs[0].path, runs[1].path, "--markdown").splitlines()
    ]
    assert heading[0].startswith("one: perplexity 11.37")
    assert len(lines) == len(teacher.costs)
    for line, one in zip(lines, teacher.costs, strict=True):
        assert line[0].startswith(f"**{one.label}") == one.best
        assert line[heading.index("skips")].strip("*") == f"{100 * one.skipped:.1f} %"


def test_csv_has_the_rows_of_points_csv_of_every_run(runs: list[RunFolder]) -> None:
    rows = list(csv.DictReader(io.StringIO(said(*(run.path for run in runs), "--csv"))))
    for run in runs:
        mine = [
            {name: value for name, value in row.items() if name != "run"} for row in rows if row["run"] == run.path.name
        ]
        full, others = scores_of(run)
        by_setting = lambda row: tuple(row[name] for name in ("method", "inputs", "setting", "window"))  # noqa: E731
        assert sorted(mine, key=by_setting) == sorted([full, *others.values()], key=by_setting)


def test_the_chart_has_a_panel_for_each_teacher(runs: list[RunFolder], tmp_path: Path) -> None:
    path = tmp_path / "scores.svg"
    said(*(run.path for run in runs), "--chart", path, "--only", "sketch,distance")
    text = assert_for_both_grounds(path)
    assert text.count(">one<") == text.count(">translator<") == text.count(">sketch<") == 1
    assert ">two<" not in text
    assert ">BLEU, points of difference<" in text


def test_ranks_are_lines_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "ranks", SMALL, timing=False)
    rows = [row for row in changed(run, "setting", {}) if row["method"] == "sketch"]
    own = {(row["method"], row["sparsity"]): json.dumps({"r": 4 if n % 2 else 8}) for n, row in enumerate(rows)}
    changed(run, "setting", own)
    text = said(run.path, "--chart", tmp_path / "chart.svg") and (tmp_path / "chart.svg").read_text()
    assert text.count(">sketch, r = 4<") == text.count(">sketch, r = 8<") == 1
    assert ">sketch<" not in text


@pytest.mark.parametrize(
    ("change", "wanted"),
    [("twice", "runs of different names"), ("unknown method", "some of bigbird"), ("no scores", "has `accuracy`")],
)
def test_what_is_wrong_is_said(runs: list[RunFolder], tmp_path: Path, change: str, wanted: str) -> None:
    folders = [*runs]
    if change == "twice":
        folders.append(runs[0])
    if change == "no scores":
        folders.append(RunFolder(tmp_path))
    with pytest.raises(InputError, match=wanted):
        teachers(folders, ["sketsch"] if change == "unknown method" else [])


def test_a_table_is_one_thing(runs: list[RunFolder]) -> None:
    result = CliRunner().invoke(app, ["scores", str(runs[0].path), "--csv", "--markdown"])
    assert "one of them" in str(result.exception)


@pytest.mark.parametrize(("least", "most"), [(0.0, 0.5), (0.28, 0.997), (0.76, 0.996), (0.94, 0.999), (0.0, 0.999)])
def test_ticks_of_skipped_pairs_do_not_touch(least: float, most: float) -> None:
    axes = Figure().subplots()
    skipped_axis(axes, least, most)
    ticks = -np.log2(1 - np.array(axes.get_xticks()))
    assert len(ticks) > 1
    assert bool((np.abs(np.diff(ticks)) * 12 >= np.log2((1 - least) / (1 - most)) - 1e-9).all())


@pytest.mark.parametrize(("place", "harm"), [(0, 80.0), (2, -900.0)])
def test_the_chart_ends_where_a_method_is_of_no_use(runs: list[RunFolder], place: int, harm: float) -> None:
    """One that costs thousands leaves room for those that cost little, which are seen whole."""
    teacher = teachers([runs[place]])[0]
    scale, end = (100, PERCENT_TICKS[-1]) if teacher.relative else (1, POINTS_TICKS[-1])
    for change, inside in ((harm, False), (harm / 8000, True)):
        axes = Figure().subplots()
        draw_panel(axes, replace(teacher, costs=tuple(replace(one, changes=(change,)) for one in teacher.costs)), [])
        low, high = sorted(map(float, axes.get_ylim()))
        assert (low < scale * change < high) is inside
        assert low < 0 < high
        assert max(-low, high) <= 1.2 * abs(end)
