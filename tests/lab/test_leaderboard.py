"""The leaderboard: means over teachers, which can be counted from points.csv by hand; on the terminal and the page."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsefinder import InputError
from sparsefinder.lab.bench.points import write_unit
from sparsefinder.lab.cli import app
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.leaderboard import VALUES, as_csv, standings
from sparsefinder.lab.report import write_comparison
from sparsefinder.lab.sweep.summary import write_summary

from .bench.made_up import METHODS as TIMED
from .bench.made_up import add_bench
from .bench.made_up import rows as bench_rows
from .report.browser import browser, opened
from .report.grounds import assert_for_both_grounds
from .report.made_up import Sizes, make_run

SMALL = Sizes(layers=1, heads=2, settings=5, examples=0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    path = tmp_path_factory.mktemp("runs")
    found = [make_run(path / name, SMALL, timing=False, seed=seed) for seed, name in enumerate(("one", "two"))]
    add_bench(found[0].path)
    add_bench(found[1].path, (512, 1024))
    return found


def points_of(folder: RunFolder) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Sparsity and recall of every setting, as points.csv has them."""
    write_summary(folder)
    found = defaultdict(list)
    with (folder / "points.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["measure"] == "recall":
                found[row["method"], row["inputs"]].append((float(row["sparsity"]), float(row["value"])))
    return found


def test_the_chart_has_every_method_on_every_teacher(runs: list[RunFolder], tmp_path: Path) -> None:
    path = tmp_path / "rivals.svg"
    result = CliRunner().invoke(app, ["leaderboard", *(str(run.path) for run in runs), "--chart", str(path)])
    assert result.exit_code == 0, result.output
    text = assert_for_both_grounds(path)
    # One name in the legend, though both panels have its line; and what each panel is of.
    assert all(text.count(f">{one.label}<") == 1 for one in standings(runs))
    assert all(f">{run.path.name}<" in text for run in runs)


def test_markdown_has_a_line_for_each_method_in_order(runs: list[RunFolder]) -> None:
    paths = [str(run.path) for run in runs]
    result = CliRunner().invoke(app, ["leaderboard", *paths, "--markdown"])
    assert result.exit_code == 0, result.output
    heading, _, *lines = [
        [cell.strip() for cell in line.strip("|\n").split("|")] for line in result.output.splitlines()
    ]
    found = standings(runs)
    assert [line[1].strip("*") for line in lines] == [one.label for one in found]
    assert [line[heading.index("volume")] for line in lines] == [f"{one.means['hypervolume']:.3f}" for one in found]
    both = CliRunner().invoke(app, ["leaderboard", *paths, "--markdown", "--csv"])
    assert "one of them" in str(both.exception)


def test_means_are_those_of_the_points(runs: list[RunFolder]) -> None:
    found = standings(runs)
    points = [points_of(folder) for folder in runs]
    assert {(one.method, one.inputs) for one in found} == {*points[0]}
    for one in found:
        own = [each[one.method, one.inputs] for each in points]
        for level in (80, 90, 95):
            best = [max((y for x, y in some if x >= level / 100), default=0.0) for some in own]
            reached = any(x >= level / 100 for some in own for x, _ in some)
            assert one.means[f"recall_at_{level}"] == (pytest.approx(sum(best) / 2) if reached else None)
        for level in (95, 99):
            best = [max((x for x, y in some if y >= level / 100), default=0.0) for some in own]
            reached = any(y >= level / 100 for some in own for _, y in some)
            assert one.means[f"sparsity_at_{level}"] == (pytest.approx(sum(best) / 2) if reached else None)
        # The area below the staircase of points.
        areas = []
        for some in own:
            edges = sorted({0.0, *(x for x, _ in some)})
            steps = [(high - low, max(y for x, y in some if x >= high)) for low, high in itertools.pairwise(edges)]
            areas.append(sum(width * height for width, height in steps))
        assert one.means["hypervolume"] == pytest.approx(sum(areas) / 2)
    volumes = [one.means["hypervolume"] for one in found]
    assert volumes == sorted(volumes, reverse=True)
    assert [one.place for one in found] == list(range(1, len(found) + 1))


def test_times_are_those_of_the_shortest_and_the_longest_length(runs: list[RunFolder]) -> None:
    found = {one.method: one for one in standings(runs)}

    def ratio(method: str, length: int) -> float:
        def time(name: str) -> float:
            find, attend, power = TIMED[name]
            return (find + attend) * (length / 512) ** power

        return time("softmax") / time(method)

    means = found["sketch"].means
    assert means["shortest_to_softmax"] == pytest.approx(ratio("sketch", 512))
    # Not the mean of ratios: what is twice as fast here and half as fast there is as fast.
    assert means["longest_to_softmax"] == pytest.approx(math.sqrt(ratio("sketch", 2048) * ratio("sketch", 1024)))
    assert found["sketch"].teachers["one"]["longest_length"] == 2048
    assert found["kmeans"].means["longest_to_softmax"] is None


def test_what_does_not_reach_the_recall_has_no_time(tmp_path: Path) -> None:
    run = make_run(tmp_path / "low", SMALL, timing=False)
    found = [row | ({"recall": 0.6} if row["method"] == "distance" else {}) for row in bench_rows(512)]
    write_unit(run / "points/bench/length=512-0.parquet", found)
    means = {one.method: one.means for one in standings([run])}
    assert means["distance"]["shortest_to_softmax"] is None
    assert means["sketch"]["shortest_to_softmax"] is not None


def test_what_was_not_measured_on_all_teachers_has_no_place(runs: list[RunFolder], tmp_path: Path) -> None:
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    third = make_run(tmp_path / "three", SMALL, timing=False, seed=3)
    for name in ("recall", "sequences"):
        file = third / f"points/{name}/part-0.parquet"
        table = parquet.read_table(file)
        parquet.write_table(table.filter(compute.not_equal(table["method"], "sketch")), file)
    found = standings([*runs, third])
    assert found[-1].method == "sketch"
    assert found[-1].place is None
    assert [*found[-1].teachers] == ["one", "two"]
    result = CliRunner().invoke(app, ["leaderboard", *(str(one.path) for one in (*runs, third))])
    assert result.exit_code == 0, result.output
    assert "not measured on all teachers: sketch (2 of 3)" in " ".join(result.output.split())


def test_the_terminal_has_every_method_within_its_width(runs: list[RunFolder]) -> None:
    result = CliRunner().invoke(app, ["leaderboard", *(str(one.path) for one in runs)])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    for one in standings(runs):
        assert f"{one.place:>2} {one.label}" in result.output
        assert f"{one.means['hypervolume']:.3f}" in result.output


def test_csv_has_means_and_every_teacher(runs: list[RunFolder]) -> None:
    result = CliRunner().invoke(app, ["leaderboard", *(str(one.path) for one in runs), "--csv", "--sort", "cost_at_95"])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.output)))
    found = standings(runs, "cost_at_95")
    assert result.output == as_csv(found)
    assert [row["teacher"] for row in rows] == ["", "one", "two"] * len(found)
    costs = [one.means["cost_at_95"] for one in found if one.means["cost_at_95"] is not None]
    assert costs == sorted(costs)
    for row in (row for row in rows if not row["teacher"]):
        (one,) = [each for each in found if (each.method, each.inputs) == (row["method"], row["inputs"])]
        assert [row[name] for name in VALUES] == [
            "" if one.means[name] is None else str(one.means[name]) for name in VALUES
        ]


def test_the_page_of_several_runs_has_it(runs: list[RunFolder], tmp_path: Path) -> None:
    page_file = write_comparison(runs, tmp_path / "page.html")
    with browser() as running, opened(running, page_file) as page:
        table = page.locator("table", has=page.locator("th", has_text="Hypervolume")).first
        lines = table.locator("tbody tr")
        for place, one in enumerate(standings(runs)):
            cells = lines.nth(place).locator("td").all_inner_texts()
            assert cells[:2] == [str(one.place), f"{one.means['hypervolume']:.3f}"]
            found = one.means["recall_at_90"]
            assert cells[3] == ("not reached" if found is None else f"{100 * found:.1f}\u00a0%")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("twice", "runs of different names"),
        ("unknown column", "one of hypervolume"),
        ("no points", "sparsefinder sweep"),
    ],
)
def test_what_is_wrong_is_said(runs: list[RunFolder], tmp_path: Path, change: str, said: str) -> None:
    folders = [*runs]
    if change == "twice":
        folders.append(runs[0])
    if change == "no points":
        folders.append(RunFolder(tmp_path))
    with pytest.raises(InputError, match=said):
        standings(folders, "volume" if change == "unknown column" else "hypervolume")
