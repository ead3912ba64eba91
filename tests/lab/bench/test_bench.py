"""A benchmark from end to end: every row there is, kept and gone on with, on text that nothing was fitted to."""

from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from sparsefinder import InputError, Projection, Sparsefinder
from sparsefinder.lab import cli
from sparsefinder.lab.bench.asked import Asked
from sparsefinder.lab.bench.bench import bench, lengths_of
from sparsefinder.lab.bench.entries import REFERENCES, Entry, entries_of
from sparsefinder.lab.bench.points import BENCH, read_bench
from sparsefinder.lab.bench.subject import first, of_model, of_run
from sparsefinder.lab.bench.table import print_tables
from sparsefinder.lab.bench.texts import PlainText
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Timing
from sparsefinder.traces.store import Traces

from .teachers import LENGTH, REACH, run_folder, saved_model

FEW = Asked(entries_of("sketch, distance, window:size=5, block-topk:block=4, sketch:exact"), repeats=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run_folder(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return saved_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def clean(run: RunFolder) -> RunFolder:
    """The run without what another test measured."""
    for file in (run / "points").rglob("*.parquet"):
        file.unlink()
    return run


def times_of(folder: RunFolder) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in (folder / "points/bench").glob("*.parquet")}


def test_a_run_is_measured_at_its_own_length_with_every_entry(clean: RunFolder) -> None:
    said: list[str] = []
    grid = Timing(blocks=(1, 2), sizes=(4,), clusters=(2,))
    rows = bench(of_run(clean.path), Asked(FEW.entries, repeats=2, grid=grid), said.append)
    plain, blocks = ([row for row in rows if bool(row["block"]) is which] for which in (False, True))
    assert [Entry.of_row(row) for row in plain] == [*REFERENCES, *FEW.entries]
    assert {row["length"] for row in rows} == {LENGTH}
    assert said == ["Lengths above 48 are left out: tiny has no more positions."]
    assert {(row["block"], row["blocks"], row["method"]) for row in blocks} == {
        (4, count, method) for count in (1, 2) for method in ("softmax", "full", "block-topk")
    }
    for row in rows:
        entry = Entry.of_row(row)
        assert set(row) == set(BENCH.names)
        assert row["turns"] == 2
        assert row["attend"] > 0
        assert (row["find"] > 0) == entry.finds
        assert row["alone_low"] <= row["alone"] <= row["alone_high"]
        assert row["layers"] == row["heads"] == 2
        assert (row["recall"] is None) == (entry.method == "softmax")
        assert row["recall"] is None or 0 <= row["recall"] <= 1
        if entry.method == "full":
            assert row["to_full"] == row["forward_to_full"] == row["recall"] == 1
        if entry.method == "softmax":
            assert row["to_softmax"] == row["forward_to_softmax"] == 1
    wanted = {row["method"]: row["wanted"] for row in plain if not row["exact"]}
    assert [name for name, recall in wanted.items() if recall is None] == ["softmax", "full", "window"]
    assert wanted["sketch"] == 0.95
    # By the names of their files.
    assert read_bench(clean) == [*plain, *blocks] or read_bench(clean) == [*blocks, *plain]


def test_what_was_measured_is_not_measured_again(clean: RunFolder) -> None:
    said: list[str] = []
    asked = Asked(FEW.entries[:1], (16, LENGTH), repeats=1)
    rows = bench(of_run(clean.path), asked, said.append)
    before = times_of(clean)
    assert len(before) == 2
    assert bench(of_run(clean.path), asked, said.append) == rows
    assert times_of(clean) == before
    assert "2 of 2 units were measured before" in said[-1]
    # Another length leaves these where they are, another method takes their place.
    bench(of_run(clean.path), Asked(FEW.entries[:1], (20,), repeats=1), said.append)
    assert len(times_of(clean)) == 3
    bench(of_run(clean.path), Asked(FEW.entries[2:3], (16,), repeats=1), said.append)
    after = times_of(clean)
    assert len(after) == 3
    assert len(set(before) & set(after)) == 1
    # As it does when the number of threads changes, and as it is done when asked for again.
    bench(of_run(clean.path), Asked(FEW.entries[2:3], (16,), repeats=1, again=True), said.append)
    assert [name for name, when in times_of(clean).items() if after[name] != when] != []


def test_a_budget_leaves_the_rest_to_the_next_call(clean: RunFolder) -> None:
    said: list[str] = []
    asked = Asked(FEW.entries[2:3], (16, 20, LENGTH), repeats=50, budget=1e-6)
    subject = of_run(clean.path)
    for done in (1, 2, 3):
        rows = bench(subject, asked, said.append)
        assert len({row["length"] for row in rows}) == done
        assert {row["turns"] for row in rows} == {1}
    assert len([line for line in said if "budget is used up" in line]) == 2
    assert "2 of 3 units are left" in said[0]


def test_a_budget_bounds_fitting_too(tmp_path: Path) -> None:
    said: list[str] = []
    folder = run_folder(tmp_path)
    asked = Asked(FEW.entries[:3], (16,), repeats=50, budget=1e-6)
    subject = of_run(folder.path)
    for count in (1, 2, 3):
        # What was fitted before is timed again beside what is new: only times of one unit can be compared.
        rows = bench(subject, asked, said.append)
        assert [Entry.of_row(row) for row in rows] == [*REFERENCES, *FEW.entries[:count]]
        assert len(times_of(folder)) == 1
    late = [line for line in said if line.startswith("No time to fit")]
    assert len(late) == 2
    assert "distance, window, size 5" in late[0]
    assert "distance" not in late[1]
    # All of it is there now.
    assert bench(subject, asked, said.append) == rows
    assert "were measured before" in said[-1]


def test_maps_of_the_fit_stage_are_taken(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, until="fit")
    (distance,) = entries_of("distance")
    bench(of_run(folder.path), Asked((distance,), (LENGTH,), repeats=1), lambda line: None)
    assert not (folder / "bench/maps").exists()
    (found,) = (folder / "bench/finders").glob("distance-*")
    maps = Sparsefinder.from_pretrained(found)["encoder", 0].projection  # type: ignore[attr-defined]
    assert torch.equal(maps.queries, Projection.load(folder / "finders/projection/encoder-0.safetensors").queries)


def test_translation_is_measured_on_its_decoder(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "translation")
    rows = bench(of_run(folder.path), Asked(entries_of("window:size=3"), repeats=1), lambda line: None)
    assert {row["method"] for row in rows} == {"softmax", "full", "window"}
    assert {row["layers"] for row in rows} == {2}


def test_a_saved_model_is_measured_on_half_a_text(model: tuple[Path, Path], tmp_path: Path) -> None:
    subject = of_model(*model, tmp_path)
    rows = bench(subject, Asked(entries_of("sketch:r=2"), (16, 32), repeats=1), lambda line: None)
    assert {row["length"] for row in rows} == {16, 32}
    assert subject.folder.path == tmp_path / "bench-causal"
    assert isinstance(subject.text, PlainText)
    halves = {part: "".join(texts) for part, texts in subject.text.parts.items()}
    assert "".join(halves.values()) == model[1].read_text().replace("\n", "")
    assert abs(len(halves["train"]) - len(halves["valid"])) <= 1
    for part, texts in subject.text.parts.items():
        found = subject.rows(part, 16)["input_ids"]
        words = subject.text.tokenizer([f"{text}\n" for text in texts[:4]], add_special_tokens=False)["input_ids"]
        assert found[0, 1:-1].tolist() == [token for text in words for token in text][:14]


def test_lengths_that_cannot_be_are_said_before_any_work(
    model: tuple[Path, Path], run: RunFolder, tmp_path: Path
) -> None:
    subject, said = of_model(*model, tmp_path), []
    assert subject.reach == REACH
    with pytest.raises(InputError, match=f"lengths: got 128, want at most {REACH}"):
        bench(subject, Asked(FEW.entries, (16, 128)), said.append)
    with pytest.raises(InputError, match="shorter ones"):
        bench(subject, Asked(FEW.entries), said.append)
    assert not subject.folder.path.exists()
    short = of_model(model[0], _short(tmp_path), tmp_path)
    with pytest.raises(InputError, match="too short"):
        bench(short, Asked(FEW.entries, (32,)), said.append)
    assert lengths_of(of_run(run.path), Asked(FEW.entries), said.append) == [LENGTH]


def _short(folder: Path) -> Path:
    (folder / "short.txt").write_text("the cat saw a dog.\n")
    return folder / "short.txt"


def test_a_method_that_cannot_be_fitted_leaves_the_others_alone(clean: RunFolder) -> None:
    said: list[str] = []
    # There is one block, and nothing to tell it from.
    rows = bench(
        of_run(clean.path),
        Asked(entries_of(f"block-topk:block={LENGTH}, window:size=3"), (LENGTH,), repeats=1),
        said.append,
    )
    assert {row["method"] for row in rows} == {"softmax", "full", "window"}
    assert said[0].startswith("blocks, top-k (v1), block 24 is left out of length=24: samples: got")


def test_a_run_without_traces_says_how_to_get_them(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, until="train")
    with pytest.raises(InputError, match="sparsefinder trace"):
        of_run(folder.path)


def test_the_first_sequences_of_traces_are_those(run: RunFolder) -> None:
    traces = Traces.open(run / "traces/train")
    few = first(traces, 3)
    (whole, *_), (some,) = traces.samples("encoder", 1, batch=3), few.samples("encoder", 1, batch=8)
    assert torch.equal(whole.q, some.q)
    assert len(first(traces, 100).samples("encoder", 0, batch=1)) == 8


def test_tables_fit_80_columns(clean: RunFolder) -> None:
    grid = Timing(blocks=(1,), sizes=(4,), clusters=(2, 3))
    entries = entries_of("block-centroids, sketch:r=2:slack=1.25")
    rows = bench(of_run(clean.path), Asked(entries, repeats=1, grid=grid), lambda line: None)
    console = Console(width=80, record=True, file=StringIO())
    print_tables(rows, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for entry in (*REFERENCES, *entries):
        assert entry.label[:18] in text
    assert "by attended blocks" in text


def test_the_command_measures_prints_and_draws(clean: RunFolder, model: tuple[Path, Path], tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    options = ["--methods", "window:size=3", "--lengths", f"16,{LENGTH}", "--blocks", "none", "--repeats", "1"]
    done = CliRunner().invoke(cli.app, ["bench", str(clean.path), *options, "--chart", str(chart)])
    assert done.exit_code == 0, done.output
    assert done.output.count("window, size 3") == 2
    assert "1 turn on" in done.output
    assert chart.is_file()
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("points:", "chart:"))]
    assert max(map(len, lines)) <= 80
    for arguments, said in (
        (["bench", str(clean.path), "--text", str(model[1])], "which has a text of its own"),
        (["bench", str(model[0])], "is the folder of a model"),
    ):
        refused = CliRunner().invoke(cli.app, arguments)
        assert isinstance(refused.exception, InputError)
        assert said in str(refused.exception)
