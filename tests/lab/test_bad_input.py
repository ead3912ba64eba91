"""Bad input wherever a user can put it: each gets words that name it, and takes nothing with it that was there."""

import errno
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch

from sparsefinder import InputError, Layout, Sparsefinder, Window, attention
from sparsefinder.lab.engines import JobError
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.lab.tasks.data import read_pairs, read_texts
from sparsefinder.traces.store import Traces
from sparsefinder.traces.writer import TraceWriter, stretch

from .sweep.runs import folder, recipe
from .test_run import tiny_recipe


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("grün\n".encode("latin-1"), "line 1 has bytes that are not UTF-8"),
        (b"good\n\xff\xfe\n", "line 2 has bytes that are not UTF-8"),
        (b"", "without a single text"),
        (b"\n\n  \n\r\n", "without a single text"),
        (b"\x1f\x8b\x08cut off", "a whole gzip file"),
    ],
)
def test_texts_that_are_none(content: bytes, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(InputError, match=wrong):
        read_texts(str(tmp_path / "text"))


def test_texts_that_are_odd(tmp_path: Path) -> None:
    """NUL bytes are characters as others, and a line may be as long as it likes."""
    file = tmp_path / "text"
    file.write_bytes(b"a\x00b\n\n" + b"word " * 2_000_000 + b"\nlast")
    texts = read_texts(str(file))
    assert [len(text) for text in texts] == [3, 9_999_999, 4]
    file.write_text("one\ttwo\tthree\n")
    with pytest.raises(InputError, match="line 1 has 2 tabs"):
        read_pairs(str(file))


def test_points_that_were_cut_off_are_named(tmp_path: Path) -> None:
    run_folder = folder(tmp_path)
    sweep_recall(run_folder, recipe(["window"]))
    file = next((run_folder / "points/recall").glob("*.parquet"))
    good = file.read_bytes()
    for bad in (b"", good[: len(good) // 2], good[:-8] + b"PAR1PAR1", b"PAR1" + good):
        file.write_bytes(bad)
        with pytest.raises(InputError, match=file.name.split("=")[0]):
            read_points(run_folder, "recall")
    file.write_bytes(good)
    assert read_points(run_folder, "recall").num_rows == 2 * parquet.read_metadata(file).num_rows


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"name": "nothing"}, "one of"),
        ({"settings": {"size": -3}}, "size"),
        ({"settings": {"size": "wide"}}, "size"),
        ({"settings": {"sise": 3}}, "sise"),
        ({"settings": {"size": {"tensor": "not.there"}}}, "not.there"),
    ],
)
def test_finders_that_are_none(changed: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    Sparsefinder({("encoder", 0): Window(3)}).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "finders.json").read_text())
    config["sites"][0]["finder"] |= changed
    (tmp_path / "finders.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=wrong):
        Sparsefinder.from_pretrained(tmp_path)


@pytest.mark.parametrize("backend", ["native", "portable", "reference"])
def test_numbers_that_are_none_and_lengths_beyond(backend: str) -> None:
    q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
    broken = q.clone()
    broken[0, 1, 3, 2] = torch.nan
    with pytest.raises(InputError, match=r"NaN|finite"):
        attention(broken, k, v, backend=backend)
    with pytest.raises(InputError, match="key_lengths"):
        attention(q, k, v, layout=Layout(key_lengths=torch.tensor([9])), backend=backend)


def test_traces_of_another_teacher_are_an_error(tmp_path: Path) -> None:
    asked = load_recipe(tiny_recipe("masked-lm", tmp_path))
    found = run(asked, tmp_path / "runs", "sweep", say=lambda line: None)
    for name in ("train", "valid"):
        index = json.loads((found / f"traces/{name}/index.json").read_text())
        (found / f"traces/{name}/index.json").write_text(json.dumps({**index, "teacher": "of somebody else"}))
    (found / "stages/sweep.json").unlink()
    with pytest.raises(JobError, match="traces of another teacher, of somebody else"):
        run(asked, tmp_path / "runs", "sweep", say=lambda line: None)


ARTIFACTS = [
    "recipe.yaml", "teacher", "part-000000", "traces/train/index.json", "examples.jsonl", "finders/.parts", "finders/",
    "points/recall", "points/sequences", "points/accuracy", "summary.csv", "report",
]  # fmt: skip


def test_a_disk_that_fills_while_each_artifact_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, nothing is half there, and the same command goes on when there is room."""
    asked = load_recipe(tiny_recipe("masked-lm", tmp_path))
    replace = os.replace
    for artifact in ARTIFACTS:

        def full(old: Any, new: Any, artifact: str = artifact, **more: Any) -> None:
            if artifact in os.fspath(new):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(old, new, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            with pytest.raises(Exception, match="No space left") as raised:
                run(asked, tmp_path / "runs", say=lambda line: None)
        assert "intact" in str(raised.value), artifact
        assert not [path for path in (tmp_path / "runs").rglob(".*-*") if path.is_file() and ".lock" not in path.name]
    run(asked, tmp_path / "runs", say=lambda line: None)


def test_a_stretch_of_long_sequences_is_kept(tmp_path: Path) -> None:
    """Files are as large for long sequences as for short ones, and stretches come from everywhere."""
    sizes = []
    for n in (50, 500):
        with TraceWriter(tmp_path / str(n), tokens=20, first=3) as writer:
            q = torch.arange(n, dtype=torch.float32).expand(2, 1, n).unsqueeze(-1).expand(2, 1, n, 4)
            writer.add("decoder", 0, q, q, Layout(causal=True))
        (sample,) = Traces.open(tmp_path / str(n)).samples("decoder", 0)
        assert sample.q.shape == (2, 1, 20, 4)
        assert [int(one[0, 0, 0]) for one in sample.q] == [stretch(number, n, 20).start for number in (3, 4)]
        assert torch.equal(sample.q, sample.k)
        sizes.append(sum(file.stat().st_size for file in (tmp_path / str(n)).glob("*.safetensors")))
    assert sizes[0] == sizes[1]
    starts = sorted(stretch(number, 1019, 20).start for number in range(1000))
    assert starts[0] < 5 < 990 < starts[-1]
    assert max(later - earlier for earlier, later in pairwise(starts)) < 5
    assert stretch(7, 12, 20) == stretch(7, 12, None) == slice(0, 12)
    with pytest.raises(InputError, match="tokens"):
        TraceWriter(tmp_path / "none", tokens=0)


def test_a_run_of_stretches(tmp_path: Path) -> None:
    """Tokens of the examples are those whose queries and keys were kept."""
    changes = ["trace.tokens_per_sequence=6", "trace.sequences_per_part=3"]
    found = run(load_recipe(tiny_recipe("causal-lm", tmp_path), changes), tmp_path / "runs", say=lambda line: None)
    lines = [json.loads(line) for line in (found / "traces/examples.jsonl").read_text().splitlines()]
    assert {len(line["queries"]) for line in lines} == {6}
    assert len(list((found / "traces/train").glob("part-*"))) == 3
    assert (found / "report/index.html").is_file()
