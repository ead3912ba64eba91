"""The command line: help with examples, errors in a sentence, tables that fit, and what to do next."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

import sparsefinder
from sparsefinder.describing import does
from sparsefinder.finders import methods
from sparsefinder.finders.registry import parameters_of
from sparsefinder.lab import cli
from sparsefinder.lab.methods import read
from sparsefinder.lab.saying import stopped

from .report.made_up import Sizes, make_run

COMMANDS = ("run", "check", "train", "trace", "fit", "sweep", "report", "points", "bench", "doctor", "methods")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    if command != "methods":
        assert f"sparsefinder {command}" in result.output


@pytest.mark.parametrize("width", [80, 120])
def test_methods_lists_them_all(width: int) -> None:
    result = CliRunner().invoke(cli.app, ["methods"], env={"COLUMNS": str(width)})
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in methods())
    assert max(map(len, result.output.splitlines())) <= width


def test_what_the_files_of_methods_say_is_what_their_classes_are() -> None:
    """The list is read from the files, because importing them takes longer."""
    assert {one.name: (one.family, one.parameters, one.dials) for one in read()} == {
        name: (kind.about.family, tuple(parameters_of(kind)), tuple(dial.field for dial in kind.about.dials))
        for name, kind in methods().items()
    }
    assert {one.name: one.says for one in read()} == {name: does(name) for name in methods()}


@pytest.mark.parametrize("command", ["methods", "--version", "--help"])
def test_what_computes_nothing_brings_no_torch(command: str) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['sparsefinder', {command!r}]\n"
        "from sparsefinder.__main__ import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert command != "--version" or done.stdout == f"sparsefinder {sparsefinder.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.yaml"], "nowhere.yaml, which is not there"),
        (["check", "nowhere.yaml"], "nowhere.yaml, which is not there"),
        (["points", "nowhere"], "the folder of a run"),
        (["report", "nowhere"], "the folder of a run"),
        (["bench", "nowhere"], "the folder of a run"),
        (["bench", "nowhere", "--text", "text.txt"], "the folder of a run, or of a saved model"),
        (["bench", "nowhere", "--methods", "sketsh"], "did you mean 'sketch'?"),
        (["bench", "nowhere", "--lengths", "a"], "lengths: got 'a'"),
        (["doctor", "nowhere"], "the folder of a run, or none"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["sparsefinder", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.startswith("error: ")
    assert said in printed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "made-up", Sizes(layers=1, heads=2, settings=4, examples=0)).path


def _points(run: Path, *options: str, columns: int = 80) -> str:
    result = CliRunner().invoke(cli.app, ["points", str(run), *options], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_points_fit_80_columns(run: Path) -> None:
    said = _points(run)
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said, "nothing is cut"
    assert "full attention: perplexity" in said.splitlines()[0]
    assert not any(line.split()[:1] == ["full"] for line in said.splitlines()[1:]), "no row of zeros"
    assert sum(line.startswith("volume: ") for line in said.splitlines()) == 1


@pytest.mark.parametrize("columns", [50, 80, 100, 120])
@pytest.mark.parametrize("options", [(), ("--all",)])
def test_no_number_is_cut_on_a_terminal_of_any_width(run: Path, columns: int, options: tuple[str, ...]) -> None:
    terminal = {"COLUMNS": str(columns), "FORCE_COLOR": "1"}
    result = CliRunner().invoke(cli.app, ["points", str(run), *options], env=terminal)
    said = re.sub(r"\x1b\[[\d;]*m", "", result.stdout)
    assert "\x1b[" in result.stdout, "this was a terminal"
    assert max(map(len, said.splitlines())) <= columns
    assert "…" not in said
    wide = re.sub(r"\x1b\[[\d;]*m", "", CliRunner().invoke(
        cli.app, ["points", str(run), *options], env=terminal | {"COLUMNS": "300"}).stdout)  # fmt: skip
    for method in ("sketch", "window"):
        cells, whole = (
            [cell for line in text.splitlines() if line.startswith(f" {method} ") for cell in line.split()[1:]]
            for text in (said, wide)
        )
        assert cells == whole
        assert len(whole) == (10 if options else 6)


def test_what_is_not_reached_is_told_from_what_is_not_measured(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "some")
    for file in (tmp_path / "some/points/accuracy").glob("*.parquet"):
        table = parquet.read_table(file)
        parquet.write_table(table.filter([name in ("full", "window") for name in table["method"].to_pylist()]), file)
    said = _points(tmp_path / "some")
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.startswith(" ") and line.strip()}
    assert rows["sketch"][-2] == "–"
    assert rows["window"][-2] != "–"
    assert "–: not measured" in said
    assert "–: not measured" not in _points(run)
    for file in (tmp_path / "some/points/recall").glob("*.parquet"):
        table = parquet.read_table(file)
        low = [min(one, 0.97) for one in table["recall"].to_pylist()]
        parquet.write_table(table.set_column(table.column_names.index("recall"), "recall", [low]), file)
    said = _points(tmp_path / "some")
    assert [line.split()[3] for line in said.splitlines() if line.startswith(" sketch")] == ["never"]
    assert "never: no setting reaches it; –: not measured" in said


def test_points_as_csv_and_in_another_order(run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(_points(run, "--csv", "--sort", "score_at_gold"))))
    scores = [float(row["score_at_gold"]) for row in rows if row["score_at_gold"]]
    assert scores == sorted(scores), "the best perplexity first"
    assert rows[-1]["method"] == "full"
    recalls = [float(row["recall_at_gold"]) for row in csv.DictReader(io.StringIO(
        _points(run, "--csv", "--sort", "recall_at_gold")
    )) if row["recall_at_gold"]]  # fmt: skip
    assert recalls == sorted(recalls, reverse=True)
    result = CliRunner().invoke(cli.app, ["points", str(run), "--sort", "recal"])
    assert "did you mean recall_at_gold" in str(result.exception)


def test_points_as_a_chart_of_some_methods(run: Path, tmp_path: Path) -> None:
    _points(run, "--chart", str(tmp_path / "chart.svg"), "--only", "window")
    assert ">window<" in (tmp_path / "chart.svg").read_text()
    result = CliRunner().invoke(cli.app, ["points", str(run), "--only", "window"])
    assert "only: got window, want --chart FILE with it" in str(result.exception)


def test_an_unfinished_run_says_what_is_missing(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "half")
    for name in ("train", "trace", "fit"):
        (tmp_path / f"half/stages/{name}.json").write_text("{}")
    (tmp_path / "half/stages/sweep.json").unlink(missing_ok=True)
    (tmp_path / "half/stages/sweep.begun").write_text("key")
    for command in ("points", "report"):
        result = CliRunner().invoke(cli.app, [command, str(tmp_path / "half")])
        assert result.exit_code == 0, result.output
        said = "This run is not finished: sweep was begun; `sparsefinder run"
        assert said in " ".join(result.stderr.split())
    shutil.rmtree(tmp_path / "half/points")
    result = CliRunner().invoke(cli.app, ["points", str(tmp_path / "half")])
    assert "nothing was measured yet, want one that was swept: sweep was begun" in str(result.exception)


def test_ctrl_c_says_where_it_was_and_what_goes_on() -> None:
    notes = ["training was at step 412 of 800", "it goes on from checkpoint 400", "stage train"]
    assert stopped(notes, ["run", "my recipe.yaml", "--set", "seed=1"]) == [
        "stopped in train: training was at step 412 of 800; it goes on from checkpoint 400",
        "to go on: sparsefinder run 'my recipe.yaml' --set seed=1",
    ]
    assert stopped([], ["methods"]) == ["stopped"]
    assert stopped(["bench was at unit 1 of 3"], ["bench", "run", "--again"])[1] == "to go on: sparsefinder bench run"


def test_a_run_in_five_lines(run: Path) -> None:
    from sparsefinder.lab.folder import RunFolder
    from sparsefinder.lab.sweep.printed import closing

    lines = closing(RunFolder(run))
    assert len(lines) <= 5
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(_points(run, "--csv")))}
    assert f"sketch {100 * float(rows['sketch']['sparsity_at_95']):.1f} %" in lines[1]
    inside = [
        row
        for row in csv.DictReader(io.StringIO((run / "points.csv").read_text(encoding="utf-8")))
        if row["measure"] != "recall"
    ]
    place = max(
        (row for row in inside if row["method"] == "sketch" and float(row["recall"]) >= 0.95),
        key=lambda row: float(row["sparsity"]),
    )
    full = next(row for row in inside if row["method"] == "full")
    assert lines[2] == (
        f"Inside the model sketch finds as many and skips {100 * float(place['sparsity']):.1f} %: perplexity "
        f"{float(place['value']):.2f} in place of {float(full['value']):.2f}"
    )
    assert json.dumps(str(run))[1:-1] in lines[-1]
