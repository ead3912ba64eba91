"""What can be known before a training is said before it; the plan counts what a run then does."""

from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from sparsefinder import InputError
from sparsefinder.lab.plan import plan
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.lab.tasks.checkpoints import last_checkpoint, state_of
from sparsefinder.lab.tasks.data import read_pairs

from .test_run import tiny_recipe


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("masked-lm", ["task.model.num_attention_heads=3"], "num_attention_heads: got 3, want a divisor .* width, 16"),
        ("translation", ["task.model.decoder_attention_heads=3"], "decoder_attention_heads: got 3, want a divisor"),
        ("masked-lm", ["trace.train=500"], "trace.train and trace.valid: got 500 and 4 sequences, want at most"),
        ("translation", ["trace.longer_than=23"], "4 sequences of more than 23 tokens, want at most"),
        ("masked-lm", ["trace.kinds=[decoder]"], "kinds of trace: got 'decoder', want kinds .* encoder"),
        ("masked-lm", ["trace.layers=[7]"], "layers of trace: got 7, want layers from 0 to 1"),
        ("translation", ["accuracy.kinds=[encoder]"], "accuracy.kinds: got 'encoder', want kinds that are recorded"),
        ("masked-lm", ["fit.r=9"], "fit.r: got 9, want at most 8, the width of a head"),
    ],
)
def test_what_would_fail_after_training_is_said_before(
    kind: str, changes: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(*_: object, **__: object) -> None:
        raise AssertionError("a training was begun")

    monkeypatch.setattr("sparsefinder.lab.tasks.training.OrderedTrainer.train", trained)
    with pytest.raises(InputError, match=said):
        run(load_recipe(tiny_recipe(kind, tmp_path), changes), tmp_path / "runs", say=lambda line: None)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path))
    (tmp_path / "file").write_text("")
    for act in (lambda: run(recipe, tmp_path / "file"), lambda: list(plan(recipe, tmp_path / "file", times=False))):
        with pytest.raises(InputError, match="--runs: got .*file.* want a folder, there or to be made"):
            act()


def test_the_plan_counts_what_the_run_then_does(tmp_path: Path) -> None:
    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path))
    lines = list(plan(recipe, tmp_path / "runs", times=True))
    assert not (tmp_path / "runs").exists(), "nothing is left behind"
    said = {line[7:27].strip(): line for line in lines if line[:5] in ("train", "trace", "fit  ", "sweep")}
    assert list(said) == [
        "training", "tracing", "projections", "finders", "dials", "sparsity and recall", "sparsity and score", "timing",
    ]  # fmt: skip
    assert "4 steps of 4 sequences" in said["training"]
    assert "8 + 4 sequences" in said["tracing"]
    assert all("about" in line for title, line in said.items() if title != "dials")
    assert lines[-1].startswith("disk: about ")
    folder = run(recipe, tmp_path / "runs", "sweep", say=lambda line: None)
    rows = [row for file in (folder / "points/recall").iterdir() for row in parquet.read_table(file).to_pylist()]
    points = {(row["method"], row["inputs"], row["setting"], row["window"], row["globals"]) for row in rows}
    settings = {point[:3] for point in points}
    assert f"{len(settings)} settings, {len(points)} points" in said["sparsity and recall"]
    scored = [row for file in (folder / "points/accuracy").iterdir() for row in parquet.read_table(file).to_pylist()]
    assert f"{len(scored)} points on" in said["sparsity and score"]
    after = list(plan(recipe, tmp_path / "runs", times=False))
    assert {line[-4:] for line in after if line[:5] in ("train", "sweep")} == {"done"}


@pytest.mark.parametrize(("asked", "said"), [("null", None), ("3", "3"), ("1000", None)])
def test_a_point_is_on_as_many_sequences_as_there_are(tmp_path: Path, asked: str, said: str | None) -> None:
    recipe = load_recipe(tiny_recipe("translation", tmp_path), [f"task.evaluate={asked}", f"accuracy.evaluate={asked}"])
    every = said or str(len(read_pairs(recipe.task.data.test)))
    (line,) = [one for one in plan(recipe, tmp_path / "runs", times=False) if "sparsity and score" in one]
    assert f" points on {every} sequences" in line


def test_epochs_are_counted_in_the_steps_that_training_then_takes(tmp_path: Path) -> None:
    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path), ["task.training.epochs=1.5"])
    (line,) = [line for line in plan(recipe, tmp_path / "runs", times=True) if line[7:15] == "training"]
    folder = run(recipe, tmp_path / "runs", "train", say=lambda line: None)
    last = last_checkpoint(folder / "training")
    assert last is not None
    assert f"1.5 epochs, {state_of(last)['global_step']} × 4 sequences" in line
    assert "about" in line
