"""The command line: help with examples, errors in one line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsefinder.finders import methods
from sparsefinder.lab import cli

COMMANDS = ("run", "train", "trace", "fit", "sweep", "report", "points", "bench", "doctor", "methods")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    if command != "methods":
        assert f"sparsefinder {command}" in result.output


def test_methods_lists_them_all() -> None:
    result = CliRunner().invoke(cli.app, ["methods"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert all(name in result.output for name in methods())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.yaml"], "nowhere.yaml, which is not there"),
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
