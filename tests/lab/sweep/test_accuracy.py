"""The sweep of sparsity and accuracy, with tiny models and a task that scores how far their outputs are off."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from sparsefinder import use_entmax
from sparsefinder.core.metrics import GraphMetrics
from sparsefinder.hf.models import record
from sparsefinder.hf.recording import record_traces
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe
from sparsefinder.lab.sweep.accuracy import sweep_accuracy
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.lab.sweep.summary import print_summary, summary
from sparsefinder.lab.tasks.base import Score

from ...tiny_models import make, words
from .runs import recipe

METHODS: list[dict[str, Any]] = [
    {"method": "window"},
    {"method": "kmeans", "clusters": 3},
    {"method": "oracle"},
    {"method": "routing", "clusters": 3},
]


@dataclass
class Fake:
    """Scores a model by the mean of its outputs: any change shows. Decodes greedily, by hand, as one is told to."""

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
        ids = self.inputs()
        if self.family == "bert":
            value = model(ids).logits.float().square().mean().item()
            return Score(self.metric, value, self.better, len(ids), details={"far": 2 * value})
        cache, given, logits = None, ids[:, :1], []
        for step in range(1, ids.shape[1]):
            out = model(given, past_key_values=cache, use_cache=not whole_prefix)
            cache = out.past_key_values
            logits.append(out.logits[:, -1])
            given = ids[:, : step + 1] if whole_prefix else ids[:, step : step + 1]
        return Score(self.metric, torch.stack(logits).square().mean().item(), self.better, len(ids))

    def inputs(self) -> torch.Tensor:
        torch.manual_seed(3)
        return words(3, 14)


def _run(path: Path, task: Fake, **accuracy: Any) -> tuple[RunFolder, Recipe]:
    run, model = RunFolder(path), task.load(path)
    for name in ("train", "valid"):
        inputs = [{"input_ids": words(4, 20)} for _ in range(3)]
        record_traces(model.base_model, inputs, path / "traces" / name, dtype="float32")
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


def test_the_full_row_is_the_teacher_and_the_oracle_loses_nothing(encoder: tuple[RunFolder, Recipe, Fake]) -> None:
    run, _, _ = encoder
    rows = {(row["method"], row["window"]): row for row in _rows(run)}
    assert len(rows) == 1 + 2 * len(METHODS)
    full, teacher = rows["full", 0], json.loads((run / "teacher/score.json").read_text())
    assert full["score"] == teacher["value"]
    assert (full["sparsity"], full["own_recall"]) == (0, 1)
    assert json.loads(full["details"]) == {"far": 2 * full["score"]}
    for (method, window), row in rows.items():
        assert row["kinds"] == "encoder"
        assert row["sequences"] == 3
        if method == "oracle":
            assert row["score"] == pytest.approx(full["score"], rel=1e-5)
            assert row["own_recall"] == 1
            assert row["sparsity"] < full["own_gold_sparsity"]
        elif method == "window" and window == 0:
            assert row["score"] != pytest.approx(full["score"], rel=1e-3)
            assert row["own_recall"] < 1


def test_sparsity_is_that_of_the_graphs_the_model_ran_on(encoder: tuple[RunFolder, Recipe, Fake]) -> None:
    from sparsefinder import GlobalTokens, Window, predicting

    run, _, task = encoder
    (row,) = [row for row in _rows(run) if (row["method"], row["window"]) == ("window", 3)]
    model, finder, metrics = task.load(run.path).eval(), Window(3) | GlobalTokens(1), GraphMetrics()
    with torch.no_grad(), predicting(model, finder), record(model) as records:
        task.evaluate(model, run.path)
    for each in records:
        metrics.update(finder(each.q, each.k, each.layout), each.gold, each.layer)
    assert row["sparsity"] == pytest.approx(metrics.compute().sparsity, abs=1e-6)
    by_head = [
        sum(graph.hits.sum(0) for graph in counts) / sum(graph.gold.sum(0) for graph in counts)
        for counts in metrics._counts.values()
    ]
    assert row["own_recall"] == pytest.approx(torch.cat(by_head).mean().item(), abs=1e-6)


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
    # One point on the frontier of the oracle: without a window it is the sparsest and has every gold pair.
    assert oracle["hypervolume"] == pytest.approx(oracle["sparsity_at_99"])
    assert rows["full"]["metric"] == "perplexity"
    print_summary(run)
    assert "kmeans" in capsys.readouterr().out
    points = (run / "points.csv").read_text().splitlines()
    assert points[0].split(",")[:3] == ["measure", "method", "inputs"]
    assert {line.split(",")[0] for line in points[1:]} == {"recall", "perplexity"}
    assert len((run / "summary.csv").read_text().splitlines()) == 1 + len(rows)


def test_finders_that_look_ahead_decode_without_a_cache(tmp_path: Path) -> None:
    task = Fake("gpt2")
    run, asked = _run(tmp_path, task, windows=[3], evaluate=3)
    with torch.no_grad():
        sweep_accuracy(run, asked, task)
    rows = {row["method"]: row for row in _rows(run)}
    safe = {method["method"]: call for method, call in zip([{"method": "full"}, *METHODS], task.calls, strict=True)}
    assert safe == {
        method: {"count": 3, "whole_prefix": method == "routing"}
        for method in ("full", "window", "kmeans", "oracle", "routing")
    }
    assert rows["full"]["score"] == json.loads((run / "teacher/score.json").read_text())["value"]
    # Only the last query of each step counts, so a step sees as many pairs as with a cache.
    assert rows["routing"]["kinds"] == "decoder"
    assert 0 < rows["routing"]["sparsity"] < rows["routing"]["own_gold_sparsity"] < 1
