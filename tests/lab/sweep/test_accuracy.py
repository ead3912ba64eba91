"""The sweep of sparsity and accuracy, with tiny models and a task that scores how far their outputs are off."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch
from transformers import PreTrainedModel

from sparsefinder import GlobalTokens, InputError, Window, predicting, use_entmax
from sparsefinder.core.metrics import GraphMetrics
from sparsefinder.hf.models import record
from sparsefinder.hf.recording import record_traces, teacher_hash
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe
from sparsefinder.lab.sweep.accuracy import sweep_accuracy
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.measured import measured_scores
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.lab.sweep.printed import print_summary
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.lab.sweep.summary import summary
from sparsefinder.lab.sweep.watching import Stepped, decoding_sparsity
from sparsefinder.lab.tasks.base import Score

from ...tiny_models import make, padded, words
from .runs import recipe

METHODS: list[dict[str, Any]] = [
    {"method": "window"},
    {"method": "kmeans", "clusters": 3},
    {"method": "oracle"},
    {"method": "routing", "clusters": 3},
]


# What is known of a setting inside the model, and the columns that it is in.
COLUMNS = {
    "sparsity": "sparsity", "recall": "own_recall", "precision": "own_precision", "full_recall": "own_full_recall",
    "empty_rows": "empty_rows", "gold_sparsity": "own_gold_sparsity",
}  # fmt: skip
LENGTHS = [14, 9, 5]


@dataclass
class Fake:
    """Scores a model by the size of its outputs: any change shows. Where it decodes, it does so by hand, greedily, as
    one is told to; and goes on for longer the larger the outputs are.
    """

    family: str
    calls: list[dict[str, Any]] = field(default_factory=list)
    metric: str = "perplexity"
    better: str = "lower"

    def load(self, teacher: Path) -> PreTrainedModel:
        return use_entmax(make(self.family).float())

    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        self.calls.append({"count": count, "whole_prefix": whole_prefix})
        if self.family == "bert":
            inputs = self.inputs()
            real = inputs["attention_mask"].bool()
            losses = [
                one[mine].square().mean().log1p().item() for one, mine in zip(model(**inputs).logits, real, strict=True)
            ]
            return self.score(losses)
        ids = self.inputs()["input_ids"]
        cache, given, losses = None, ids[:, :1], []
        for step in range(1, ids.shape[1] + 6):
            out = model(given, past_key_values=cache, use_cache=not whole_prefix)
            cache = out.past_key_values
            losses.append(out.logits[:, -1].square().mean(-1).log1p())
            if step > 6 and losses[-1].mean() < losses[0].mean():
                break
            ids = torch.cat([ids[:, :step], out.logits[:, -1:].argmax(-1)], 1)
            given = ids if whole_prefix else ids[:, -1:]
        return self.score(torch.stack(losses).mean(0).tolist())

    def score(self, losses: list[float]) -> Score:
        value = math.exp(sum(losses) / len(losses))
        parts = tuple((loss, 1.0) for loss in losses)
        return Score(self.metric, value, self.better, len(losses), details={"far": 2 * value}, parts=parts)

    def decoding_rate(self, model: PreTrainedModel, teacher: Path) -> float | None:
        return None

    def forced(
        self, teacher: Path, count: int | None = None, whole_prefix: bool = False
    ) -> list[dict[str, torch.Tensor]] | None:
        """In two batches, padded."""
        if self.family == "bert":
            return None
        inputs = self.inputs()
        return [{name: each[some] for name, each in inputs.items()} for some in (slice(0, 2), slice(2, 3))]

    def inputs(self) -> dict[str, torch.Tensor]:
        torch.manual_seed(3)
        return padded(words(len(LENGTHS), max(LENGTHS)), LENGTHS, "right")


def _run(path: Path, task: Fake, **accuracy: Any) -> tuple[RunFolder, Recipe]:
    run, model = RunFolder(path), task.load(path)
    for name in ("train", "valid"):
        inputs = [{"input_ids": words(4, 20)} for _ in range(3)]
        record_traces(model.base_model, inputs, path / "traces" / name, dtype="float32", teacher=teacher_hash(model))
    asked = recipe(METHODS, accuracy={"windows": [0, 3], "globals": [1], **accuracy})
    (path / "teacher").mkdir()
    score = task.evaluate(model.eval(), path / "teacher")
    (path / "teacher/score.json").write_text(json.dumps({"value": score.value, "better": task.better}))
    task.calls.clear()
    fit(run, asked)
    return run, asked


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Recipe, Fake]:
    task = Fake("bert")
    run, asked = _run(tmp_path_factory.mktemp("encoder"), task)
    with torch.no_grad():
        sweep_accuracy(run, asked, task)
    return run, asked, task


def _rows(run: RunFolder) -> list[dict[str, Any]]:
    return read_points(run, "accuracy").to_pylist()


def test_the_full_row_is_the_teacher_and_the_bound_loses_nothing(encoder: tuple[RunFolder, Recipe, Fake]) -> None:
    run, _, _ = encoder
    rows = {(row["method"], row["window"]): row for row in _rows(run)}
    # The gold graph is united with nothing.
    assert len(rows) == 1 + 2 * (len(METHODS) - 1) + 1
    full, teacher = rows["full", 0], json.loads((run / "teacher/score.json").read_text())
    assert full["score"] == teacher["value"]
    assert (full["sparsity"], full["own_recall"], full["own_full_recall"], full["empty_rows"]) == (0, 1, 1, 0)
    assert json.loads(full["details"]) == {"far": 2 * full["score"], "mass missed": 0}
    for (method, window), row in rows.items():
        assert row["kinds"] == "encoder"
        assert row["sequences"] == 3
        assert row["decoding_sparsity"] is None
        if method == "oracle":
            assert (row["window"], row["globals"]) == (0, 0)
            assert row["score"] == pytest.approx(full["score"], rel=1e-5)
            assert row["own_recall"] == row["own_full_recall"] == row["own_precision"] == 1
            assert row["sparsity"] == row["own_gold_sparsity"] == pytest.approx(full["own_gold_sparsity"], abs=1e-3)
        elif method == "window" and window == 0:
            assert row["score"] != pytest.approx(full["score"], rel=1e-3)
            assert row["own_recall"] < 1
            assert 0 < json.loads(row["details"])["mass missed"] < 1
    told = measured_scores(run)
    assert told is not None
    assert (told.columns["mass_missed"] >= 0).all()
    assert (told.columns["far"] == 2 * told.value).all()


def _by_hand(task: Fake, run: RunFolder, finder: Any, batches: list[dict[str, torch.Tensor]]) -> GraphMetrics:
    """The graphs of a model that runs on a finder, against its own gold graphs, by the metrics of the core."""
    model, metrics = task.load(run.path).eval(), GraphMetrics()
    with torch.no_grad(), predicting(model, finder), record(model) as records:
        for batch in batches:
            model(**batch)
    for each in records:
        metrics.update(finder(each.q, each.k, each.layout), each.gold, each.layer)
    return metrics


def _check_ratios(row: dict[str, Any], metrics: GraphMetrics) -> None:
    macro, micro = metrics.compute(), metrics.compute("micro")
    for name, own in COLUMNS.items():
        assert row[own] == pytest.approx(getattr(macro, name), abs=1e-6), name
        assert row[f"pooled_{own}"] == pytest.approx(getattr(micro, name), abs=1e-6), name
    for name in ("sparsity", "recall", "gold_sparsity"):
        every = torch.cat([metrics._layer(layer).ratios()[name] for layer in metrics._counts], 1)
        assert row[f"sequence_{name}"] == pytest.approx(every.mean(1).tolist(), abs=1e-6)
        assert len(set(row[f"sequence_{name}"])) == len(LENGTHS)


@pytest.mark.parametrize("window", [0, 3])
def test_ratios_are_means_over_sequences_layers_and_heads(encoder: tuple[RunFolder, Recipe, Fake], window: int) -> None:
    """Padded sequences of a batch count each for itself."""
    run, _, task = encoder
    (row,) = [row for row in _rows(run) if (row["method"], row["window"]) == ("window", window)]
    metrics = _by_hand(task, run, Window(window) | GlobalTokens(1), [task.inputs()])
    _check_ratios(row, metrics)
    assert row["sparsity"] != pytest.approx(row["pooled_sparsity"], abs=1e-3)


def test_a_second_sweep_scores_nothing_and_a_lost_point_is_scored_again(
    encoder: tuple[RunFolder, Recipe, Fake],
) -> None:
    run, asked, task = encoder
    task.calls.clear()
    before = {(row["method"], row["window"]): row["score"] for row in _rows(run)}
    sweep_accuracy(run, asked, task)
    assert task.calls == []
    next((run / "points/accuracy").glob("kmeans*")).unlink()
    sweep_accuracy(run, asked, task)
    assert len(task.calls) == 1
    assert {(row["method"], row["window"]): row["score"] for row in _rows(run)} == before


def test_a_summary_of_both_sweeps(encoder: tuple[RunFolder, Recipe, Fake], capsys: pytest.CaptureFixture[str]) -> None:
    run, asked, _ = encoder
    sweep_recall(run, asked)
    rows = {row["method"]: row for row in summary(run)}
    oracle = rows["oracle"]
    assert oracle["sparsity_at_99"] == oracle["sparsity_at_95"] > 0
    assert rows["full"]["hypervolume"] is None
    # One point, which has every gold pair.
    assert oracle["points"] == oracle["scored"] == 1
    assert oracle["recall_at_gold"] == 1
    assert oracle["hypervolume"] == pytest.approx(oracle["sparsity_at_99"])
    assert rows["full"]["metric"] == "perplexity"
    print_summary(run)
    assert "kmeans" in capsys.readouterr().out
    points = (run / "points.csv").read_text().splitlines()
    assert points[0].split(",")[:3] == ["measure", "method", "inputs"]
    assert {line.split(",")[0] for line in points[1:]} == {"recall", "perplexity"}
    every = list(csv.DictReader(points))
    for row in every:
        assert float(row["value_low"]) <= float(row["value_high"])
    (whole,) = (row for row in every if row["method"] == "full")
    assert float(whole["value_low"]) == float(whole["value"]) == float(whole["value_high"])
    assert len((run / "summary.csv").read_text().splitlines()) == 1 + len(rows)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Recipe, Fake]:
    task = Fake("gpt2")
    run, asked = _run(tmp_path_factory.mktemp("decoder"), task, windows=[3], evaluate=3)
    with torch.no_grad():
        sweep_accuracy(run, asked, task)
    return run, asked, task


def test_finders_that_look_ahead_decode_without_a_cache(decoder: tuple[RunFolder, Recipe, Fake]) -> None:
    run, _, task = decoder
    rows = {row["method"]: row for row in _rows(run)}
    safe = {method["method"]: call for method, call in zip([{"method": "full"}, *METHODS], task.calls, strict=True)}
    assert safe == {
        method: {"count": 3, "whole_prefix": method == "routing"}
        for method in ("full", "window", "kmeans", "oracle", "routing")
    }
    assert rows["full"]["score"] == json.loads((run / "teacher/score.json").read_text())["value"]
    assert rows["routing"]["kinds"] == "decoder"
    assert 0 < rows["routing"]["sparsity"] < rows["routing"]["own_gold_sparsity"] < 1


def test_sparsity_is_that_of_a_teacher_forced_pass_whatever_the_model_says(
    decoder: tuple[RunFolder, Recipe, Fake],
) -> None:
    run, _, task = decoder
    rows = {row["method"]: row for row in _rows(run)}
    forced, finder = task.forced(run.path), Window(3) | GlobalTokens(1)
    assert forced is not None
    _check_ratios(rows["window"], _by_hand(task, run, finder, forced))
    # A window says as little of what it sees as it says of the text: its sparsity follows from the lengths alone.
    visible = [n * (n + 1) / 2 for n in LENGTHS]
    kept = [sum(len({0, *range(max(0, i - 1), i + 1)}) for i in range(n)) for n in LENGTHS]
    assert rows["window"]["sparsity"] == pytest.approx(
        sum(1 - part / whole for part, whole in zip(kept, visible, strict=True)) / 3
    )
    # Decoding goes on for as long as the model likes.
    assert rows["full"]["decoding_sparsity"] == rows["full"]["sparsity"] == 0
    assert rows["window"]["decoding_sparsity"] != pytest.approx(rows["window"]["sparsity"], abs=0.01)


def test_sparsity_while_decoding_is_that_of_all_steps(decoder: tuple[RunFolder, Recipe, Fake]) -> None:
    """Steps of one query with a cache, and whole prefixes of which the last query is new, see the same pairs."""
    run, _, task = decoder
    (row,) = [row for row in _rows(run) if row["method"] == "window"]
    model, finder = task.load(run.path).eval(), Window(3) | GlobalTokens(1)
    found = []
    for whole in (False, True):
        stepped = {("decoder", layer): Stepped(finder, whole) for layer in range(2)}
        with torch.no_grad(), predicting(model, stepped):
            task.evaluate(model, run.path, whole_prefix=whole)
        found.append(decoding_sparsity(stepped.values()))
    assert found == pytest.approx([row["decoding_sparsity"]] * 2)
    with torch.no_grad(), predicting(model, finder), record(model, layers=[0]) as records:
        task.evaluate(model, run.path)
    steps = len(records)
    kept = sum(len({0, *range(max(0, i - 1), i + 1)}) for i in range(steps))
    assert found[0] == pytest.approx(1 - kept / (steps * (steps + 1) / 2))


def test_points_of_an_earlier_version_are_refused_in_a_sentence(
    decoder: tuple[RunFolder, Recipe, Fake], tmp_path: Path
) -> None:
    run, asked, task = decoder
    shutil.copytree(run.path, tmp_path / "old")
    old = RunFolder(tmp_path / "old")
    for file in (old / "points/accuracy").glob("*.parquet"):
        table = parquet.read_table(file).drop_columns(["decoding_sparsity", "sequence_parts"])
        parquet.write_table(table, file.with_name("window-window=3-globals=1-0123456789abcdef.parquet"))
        file.unlink()
    wanted = "points/accuracy: got window-.* of an earlier version, without decoding_sparsity, want `sparsefinder sweep"
    for read in (summary, print_summary):
        with pytest.raises(InputError, match=wanted):
            read(old)
    # A sweep sets them aside and measures anew.
    task.calls.clear()
    with torch.no_grad():
        sweep_accuracy(old, asked, task)
    assert len(task.calls) == 1 + len(METHODS)
    assert len(summary(old)) == len(summary(run))
