"""The doctor says what runs, and what is wrong; where nothing was measured, that times are of made-up data."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from sparsefinder import Layout, Window
from sparsefinder.attending.api import _module, checked
from sparsefinder.lab import cli, doctor
from sparsefinder.lab.bench.entries import Entry
from sparsefinder.lab.bench.synthetic import Trial, trial
from sparsefinder.lab.folder import RunFolder

from .bench.made_up import LENGTHS, add_bench, rows

TRIED = Trial(rows(512), {512: 0.031}, ["strided"])


def said(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    for name in ("OMP_NUM_THREADS", "SPARSEFINDER_KERNEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return str(doctor.examine(measure=lambda seconds: TRIED))


def test_a_machine_that_is_well_says_so_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cores", torch.get_num_threads)
    text = said(monkeypatch)
    assert "✓ The compiled kernel is there and agrees with the reference" in text
    assert "runs in `native`" in text
    assert "torch " in text
    assert "✗" not in text
    assert "!" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "made-up queries and keys of which entmax" in text
    assert "3.1 %" in text
    assert "strided" in text


@pytest.mark.parametrize("backend", doctor.TABLE)
def test_backends_take_what_the_table_says(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    q, wide = torch.zeros(1, 2, 16, 16), torch.zeros(1, 2, 16, 16, dtype=torch.float64)
    asked: dict[str, tuple[Any, ...]] = {
        "graphs": (q, q, q, Window(3)(q, q), 1.5, Layout(), None, None, 0.0),
        "decoding": (q[:, :, :1], q, q, None, 1.5, Layout(causal=True, query_offset=15), None, None, 0.0),
        "α = 1": (q, q, q, Window(3)(q, q), 1.0, Layout(), None, None, 0.0),
        "α > 2": (q, q, q, None, 2.5, Layout(), None, None, 0.0),
        "α per head": (q, q, q, None, torch.tensor([1.5, 1.6]), Layout(), None, None, 0.0),
        "bias": (q, q, q, None, 1.5, Layout(), None, torch.zeros(16, 16), 0.0),
        "float64": (wide, wide, wide, None, 1.5, Layout(), None, None, 0.0),
    }
    assert tuple(asked) == doctor.TAKES
    refusals = {name: _module(backend).refusal(checked(*given)) for name, given in asked.items()}
    assert tuple(refusal is None for refusal in refusals.values()) == doctor.TABLE[backend][1:], refusals
    if backend != "flex":
        # That one is for softmax alone.
        for given in (asked["graphs"], (q, q, q, None, 1.5, Layout(causal=True), None, None, 0.0)):
            assert (_module(backend).refusal(checked(*given)) is None) == (backend != "adasplash" or given[3] is None)


def test_the_docs_have_the_same_table() -> None:
    lines = (Path(__file__).parents[2] / "docs/gpu.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    said = {
        name.strip("`"): (where, *(cell == "yes" for cell in cells)) for name, where, *cells in rows if len(cells) == 7
    }
    assert said == doctor.TABLE


def test_a_kernel_that_is_wrong_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    right = doctor.attention

    def wrong(*arguments: Any, **more: Any) -> Any:
        return right(*arguments, **more) + (1e-3 if more["backend"] == "native" and more["layout"].causal else 0)

    monkeypatch.setattr(doctor, "attention", wrong)
    found = doctor.examine(measure=lambda seconds: TRIED)
    assert found.broken
    assert "✗ The compiled kernel is off by 1.0e-03 with a causal mask" in " ".join(str(found).split())
    monkeypatch.setattr(doctor, "trial", lambda seconds: TRIED)
    assert CliRunner().invoke(cli.app, ["doctor"]).exit_code == 1
    monkeypatch.setattr(doctor, "attention", right)
    assert CliRunner().invoke(cli.app, ["doctor"]).exit_code == 0


def test_a_result_that_is_no_number_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_differences", lambda: iter([("all pairs", 1e-7), ("a window", float("nan"))]))
    assert doctor.examine(measure=lambda seconds: TRIED).broken


@pytest.mark.parametrize("there", [False, True])
def test_a_kernel_that_was_not_built_is_no_error_but_one_that_does_not_load_is(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "compiled", SimpleNamespace(module=None, plain=lambda: False))
    monkeypatch.setattr(doctor, "find_spec", lambda name: object() if there else None)
    found = doctor.examine(measure=lambda seconds: TRIED)
    assert found.broken is there
    assert ("cannot be loaded" if there else "is not built") in str(found)


def test_what_the_environment_changes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "! SPARSEFINDER_KERNEL=plain chooses" in said(monkeypatch, SPARSEFINDER_KERNEL="plain")
    assert "! SPARSEFINDER_KERNEL=fast means nothing" in said(monkeypatch, SPARSEFINDER_KERNEL="fast")


@pytest.mark.parametrize(
    ("threads", "cores", "wrong"), [(4, 4, None), (8, 4, "wait for each other"), (1, 4, "Others are idle")]
)
def test_threads_that_look_wrong_are_warned_of(
    threads: int, cores: int, wrong: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_cores", lambda: cores)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (line,) = doctor._threads()
    assert "OMP_NUM_THREADS is 3" in line.words
    assert line.state == ("well" if wrong is None else "warning")
    assert wrong is None or wrong in line.words


def test_cores_are_at_most_those_the_process_is_bound_to() -> None:
    assert 1 <= doctor._cores() <= len(os.sched_getaffinity(0))


def test_lengths_of_a_run_are_those_of_its_benchmark(tmp_path: Path) -> None:
    def never(seconds: float) -> Trial:
        raise AssertionError("nothing has to be measured")

    add_bench(tmp_path)
    text = str(doctor.examine(RunFolder(tmp_path), measure=never))
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert lines["sketch"][:3] == ["512", "512", f"{LENGTHS[-1]:,}"]
    assert lines["distance"][:2] == ["1,024", "512"]
    assert lines["window"][:2] == ["–", "–"]
    assert "made-up" not in text
    assert max(map(len, text.splitlines())) <= 80
    # Measured on 2 threads.
    assert ("That was measured with 2 threads" in text) == (torch.get_num_threads() != 2)
    empty = str(doctor.examine(RunFolder(tmp_path / "other"), measure=lambda seconds: TRIED))
    assert "has no benchmark yet" in " ".join(empty.split())


def test_made_up_queries_and_keys_are_timed_and_their_sparsity_is_said() -> None:
    tried = trial(60.0, "sketch:r=8, window:size=9", lengths=(32, 64))
    assert {row["length"] for row in tried.rows} == {32, 64}
    assert {Entry.of_row(row).label for row in tried.rows} >= {"sketch, r 8", "all pairs", "full softmax"}
    assert all(0 < share < 0.5 for share in tried.gold.values())
    assert tried.left_out == []
    sketches = [row for row in tried.rows if row["method"] == "sketch"]
    assert all(row["recall"] > 0.8 for row in sketches)
    # No time at all is still a length, and what was not tried is named.
    hurried = trial(0.0, "window:size=9", lengths=(32, 64))
    assert hurried.left_out == ["window, size 9"]
    assert {row["length"] for row in hurried.rows} == {32}
