"""Runs on another device: models and finders are there, what is counted is counted here, and points are the same."""

from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
import yaml

from sparsefinder import InputError
from sparsefinder.lab.device import device_of, timed_on
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run

from ..elsewhere import in_a_process as elsewhere
from .test_run import TIMING, tiny_recipe

METHODS = [
    "window",
    {"method": "distance", "recall": 0.8},
    {"method": "quantization", "beta": 2},
]


def test_every_finder_moves_and_predicts_the_same_on_another_device() -> None:
    elsewhere("finders")


def test_finders_wait_for_a_device_no_more_often_than_they_say() -> None:
    elsewhere("waits")


@pytest.mark.parametrize("kind", ["masked-lm", "translation"])
def test_traces_scores_and_times_are_taken_on_the_device_and_counted_here(tmp_path: Path, kind: str) -> None:
    file = tiny_recipe(kind, tmp_path)
    # Quantization looks ahead and is decoded on whole prefixes, the others step by step.
    changes = {
        "sweep": {"methods": METHODS, "windows": [0, 3], "processes": 1},
        "accuracy": {"windows": [3], "methods": METHODS, "evaluate": 2},
        "timing": TIMING | {"sequences": 2} if kind == "masked-lm" else None,
    }
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}))
    here = run(load_recipe(file), tmp_path / "here", "sweep", say=lambda line: None)
    there = run(load_recipe(file), tmp_path / "there", "train", say=lambda line: None)
    elsewhere("run", str(file), str(tmp_path / "there"))
    for name in ("accuracy", "timing") if kind == "masked-lm" else ("accuracy",):
        rows = [_rows(folder.path / "points" / name) for folder in (here, there)]
        assert rows[0] == rows[1]
        assert len(rows[0]) >= 4


def _rows(folder: Path) -> list[list[object]]:
    """What was measured, without how long it took; scores and shares to what rounding leaves."""
    found = []
    for file in sorted(folder.glob("*.parquet"), key=lambda one: one.name.rpartition("-")[0]):
        for row in parquet.read_table(file).to_pylist():
            kept = [value for name, value in row.items() if "seconds" not in name and name != "details"]
            found.append([_rounded(value) for value in kept])
    return found


def _rounded(value: object) -> object:
    """A number to what rounding leaves of it, also in lists: those of each sequence."""
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return f"{value:.4g}" if isinstance(value, float) else value


def test_which_device_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto") == device_of("cpu") == torch.device("cpu")
    assert timed_on("auto") == []
    with pytest.raises(InputError, match="torch finds no GPU here.*'auto'"):
        device_of("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of("auto") == device_of("cuda") == torch.device("cuda")
    assert device_of("cpu") == torch.device("cpu")
    assert timed_on("auto") == ["cuda"]
