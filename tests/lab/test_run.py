"""A run from end to end, twice, and killed in every stage: what comes out is the same."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import yaml
from safetensors.torch import load_file

from sparsefinder import InputError, SparsefinderError
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run

# With weights so large that attention is sparse from the start.
TINY_BERT = {
    "architecture": "BertForMaskedLM", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 32, "initializer_range": 1.0,
}  # fmt: skip
TINY_MARIAN = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "init_std": 1.0,
}  # fmt: skip
TINY_LLAMA = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 32, "initializer_range": 1.0,
}  # fmt: skip
METHODS = [
    "window",
    {"method": "distance", "t": [0.5, 2.0]},
    {"method": "kmeans", "clusters": [2], "top_k": [1, 2]},
    {"method": "sketch", "r": 2, "share": [0.2]},
]
COMMON = {
    "trace": {"train": 8, "valid": 4, "batch": 4},
    "fit": {"restarts": 1},
    "sweep": {"methods": METHODS, "windows": [0, 3], "globals": [1], "processes": 1},
    "accuracy": {"windows": [3], "methods": ["full", "window", {"method": "sketch", "r": 2, "share": [0.2]}]},
}
WORDS = "the cat and a dog saw one big red house near two small green trees by old blue water"
TIMING = {"blocks": [1], "sizes": [2], "clusters": [2], "sequences": 500, "batch": 8, "repeats": 1}
# Kills its own process when something is given a name that contains a word: in the middle of a stage.
KILLED = """
import os, signal, sys
word = sys.argv.pop(1)
def killing(rename):
    def renamed(old, new, *rest, **more):
        done = rename(old, new, *rest, **more)
        if word in os.fspath(new):
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return renamed
os.replace, os.rename = killing(os.replace), killing(os.rename)
from sparsefinder.lab.cli import main
main()
"""


def _text(path: Path, lines: int) -> str:
    words = WORDS.split()
    picks = [[words[(line * 7 + place * place) % len(words)] for place in range(9)] for line in range(lines)]
    path.write_text("".join(" ".join(pick) + ".\n" for pick in picks))
    return str(path)


@pytest.fixture(params=["masked-lm", "causal-lm", "translation"])
def recipe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tiny_recipe(request.param, tmp_path)


def tiny_recipe(kind: str, folder: Path) -> Path:
    training = {"steps": 4, "batch": 4, "every": 2}
    if kind != "translation":
        data = {"train": _text(folder / "train.txt", 60), "valid": _text(folder / "valid.txt", 12)}
        model = TINY_BERT if kind == "masked-lm" else TINY_LLAMA
        task = {"kind": kind, "data": data, "model": model, "vocabulary": 300, "length": 24, "training": training}
    else:
        pair = [_text(folder / "a.en", 40), _text(folder / "a.de", 40)]
        data = {"train": pair, "valid": pair, "test": pair}
        task = {
            "kind": kind, "data": data, "model": TINY_MARIAN, "vocabulary": 300, "length": 24, "beam": 2,
            "evaluate": 4, "training": training,
        }  # fmt: skip
    more = {"timing": TIMING} if kind != "translation" else {}
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump({"name": "tiny", "task": task, **COMMON, **more}))
    return file


def results(folder: Path) -> dict[str, object]:
    """Everything a run found out, without how long it took."""
    found: dict[str, object] = {"score": (folder / "teacher/score.json").read_text()}
    for name in ("train", "valid"):
        found[name] = json.loads((folder / f"traces/{name}/index.json").read_text())["hash"]
    found["examples"] = (folder / "traces/examples.jsonl").read_text()
    for file in sorted(folder.glob("finders/**/*.safetensors")):
        found[str(file.relative_to(folder))] = {name: each.tolist() for name, each in load_file(file).items()}
    for file in sorted(folder.glob("points/**/*.parquet")):
        columns = [name for name in parquet.read_schema(file).names if "seconds" not in name]
        found[str(file.relative_to(folder))] = parquet.read_table(file, columns=columns).to_pylist()
    return found


def test_the_second_run_computes_nothing(recipe: Path, tmp_path: Path) -> None:
    said: list[str] = []
    folder = run(load_recipe(recipe), tmp_path / "runs", say=said.append)
    assert (folder / "report/index.html").is_file()
    assert len([line for line in said if "done in" in line]) == 5
    first = results(folder.path)
    times = {file: file.stat().st_mtime_ns for file in folder.path.rglob("*") if file.name != "recipe.yaml"}
    said.clear()
    run(load_recipe(recipe), tmp_path / "runs", say=said.append)
    assert [line.partition(": ")[2] for line in said] == ["nothing to do, it is done"] * 5
    after = {file: file.stat().st_mtime_ns for file in folder.path.rglob("*") if file.name != "recipe.yaml"}
    # The folder itself changes when recipe.yaml and the lock are written.
    assert {file for file in times if file.is_file() and times[file] != after[file]} == set()
    assert results(folder.path) == first
    _check_full_row(folder)
    _check_timing(folder)
    run(load_recipe(recipe), tmp_path / "again", say=said.append)
    assert results(tmp_path / "again/tiny") == first


def _check_full_row(folder: RunFolder) -> None:
    """The full graph gives exactly the teacher's own score."""
    score = json.loads((folder / "teacher/score.json").read_text())
    rows = [
        row for file in (folder / "points/accuracy").glob("*.parquet") for row in parquet.read_table(file).to_pylist()
    ]
    (full,) = [row for row in rows if row["method"] == "full"]
    assert full["score"] == score["value"]
    assert full["sparsity"] == 0
    assert len(rows) == 3


def _check_timing(folder: RunFolder) -> None:
    """More sequences were asked for than there are: the rows say how many there were."""
    there = json.loads((folder / "teacher/score.json").read_text())["sequences"]
    assert there < TIMING["sequences"]
    for file in (folder / "points/timing").glob("*.parquet"):
        assert {row["sequences"] for row in parquet.read_table(file).to_pylist()} == {there}


def test_killed_in_every_stage_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    recipe = tiny_recipe("masked-lm", tmp_path)
    command = [str(recipe), "--runs", str(tmp_path / "killed")]
    folder = tmp_path / "killed/tiny"
    stages = ("checkpoint-2", "train"), ("part-000000", "trace"), ("finders/", "fit"), ("points/recall", "sweep")
    for word, stage in stages:
        killed = subprocess.run([sys.executable, "-c", KILLED, word, "run", *command], capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        # In the middle of it: those before are finished, this one is not.
        assert not (folder / f"stages/{stage}.json").exists()
        assert (folder / f"stages/{stage}.begun").exists()
    done = subprocess.run([sys.executable, "-m", "sparsefinder", "run", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run(load_recipe(recipe), tmp_path / "undisturbed", say=lambda line: None)
    assert results(folder) == results(tmp_path / "undisturbed/tiny")


def test_what_does_not_depend_on_a_change_is_not_done_again(tmp_path: Path) -> None:
    recipe, said = tiny_recipe("masked-lm", tmp_path), list[str]()
    run(load_recipe(recipe), tmp_path, "sweep", say=said.append)
    said.clear()
    changed = load_recipe(recipe, ["sweep.windows=[0, 3, 5]"])
    folder = run(changed, tmp_path, "sweep", say=said.append)
    assert [line for line in said if "nothing" in line] == [
        f"{name}: nothing to do, it is done" for name in ("train", "trace")
    ]
    said.clear()
    run(load_recipe(recipe, ["trace.train=6"]), tmp_path, "trace", say=said.append)
    assert "nothing" in said[0]
    assert "begins" in said[1]
    assert list(folder.path.glob("traces-*/train/index.json"))


def test_points_of_an_earlier_version_are_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, said = load_recipe(tiny_recipe("masked-lm", tmp_path)), list[str]()
    for module in ("points", "recall", "accuracy"):
        monkeypatch.setattr(f"sparsefinder.lab.sweep.{module}.VERSION", 0)
    folder = run(recipe, tmp_path, say=said.append)
    names = {which: {file.name for file in (folder / "points" / which).iterdir()} for which in ("recall", "accuracy")}
    monkeypatch.undo()
    said.clear()
    run(recipe, tmp_path, say=said.append)
    assert [line.split(":")[0] for line in said if "begins" in line] == ["sweep", "report"]
    for which, old in names.items():
        assert not old & {file.name for file in (folder / "points" / which).iterdir()}
        assert old == {file.name for file in (folder / "points" / f"{which}-unused").iterdir()}


def test_a_full_disk_keeps_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path))
    folder = run(recipe, tmp_path, "trace", say=lambda line: None)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("safetensors.torch.serialize_file", full)
        patched.setattr("sparsefinder.fitted.save_file", full)
        with pytest.raises(SparsefinderError, match="No space left.*intact"):
            run(recipe, tmp_path, "fit", say=lambda line: None)
    said: list[str] = []
    run(recipe, tmp_path, "sweep", say=said.append)
    assert ["nothing" in line for line in said[:2]] == [True, True]
    assert list((folder / "points/recall").glob("*.parquet"))


def test_two_processes_in_one_run(tmp_path: Path) -> None:
    import fcntl

    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path))
    (tmp_path / "tiny").mkdir()
    with open(tmp_path / "tiny/.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process"):
            run(recipe, tmp_path)


def test_an_unknown_stage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train, trace, fit, sweep, report"):
        run(load_recipe(tiny_recipe("masked-lm", tmp_path)), tmp_path, "swep")


def test_a_typo_in_a_method_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    for part in ("sweep", "accuracy"):
        file.write_text(yaml.safe_dump({
            "name": "typo",
            "task": {"kind": "masked-lm", "data": {"train": "a.txt", "valid": "b.txt"}, "model": TINY_BERT},
            part: {"methods": [{"method": "sketch", "r": 4, "recal": 0.9}]},
        }))  # fmt: skip
        with pytest.raises(InputError, match=r"parameter of sketch: got 'recal' \(did you mean 'recall'\?\)"):
            run(load_recipe(file), tmp_path / "runs", "train")
    assert not (tmp_path / "runs").exists()
