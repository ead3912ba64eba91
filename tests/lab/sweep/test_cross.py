"""Cross-attention in the sweep of accuracy: whoever compares queries with each other is given all that there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from sparsefinder import use_entmax
from sparsefinder.hf.recording import record_traces, teacher_hash
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.sweep.accuracy import sweep_accuracy
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.lab.tasks.base import Score

from ...tiny_models import make, words
from .runs import recipe

SOURCE, TARGET = 12, 8
# By whether their keys for a query depend on other queries.
COMPARING: dict[str, dict[str, Any]] = {
    "routing": {"clusters": 3}, "quantization": {"beta": 3}, "block-topk": {"block": 2, "k": 1, "inputs": "raw"},
}  # fmt: skip
ALONE: dict[str, dict[str, Any]] = {"kmeans": {"clusters": 3}, "distance": {"t": 1.0}}


@dataclass
class Decoding:
    """Decodes the same words whatever the model says, step by step or by whole prefixes as it is told."""

    calls: list[bool] = field(default_factory=list)
    metric: str = "BLEU"
    better: str = "higher"

    def load(self, teacher: Path) -> PreTrainedModel:
        return use_entmax(make("marian").float())

    def batch(self) -> dict[str, torch.Tensor]:
        torch.manual_seed(5)
        return {"input_ids": words(2, SOURCE), "decoder_input_ids": words(2, TARGET)}

    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        self.calls.append(whole_prefix)
        source, target = self.batch().values()
        cache = None
        for step in range(1, TARGET + 1):
            given = target[:, :step] if whole_prefix else target[:, step - 1 : step]
            cache = model(source, decoder_input_ids=given, past_key_values=cache, use_cache=not whole_prefix)
            cache = cache.past_key_values
        return Score(self.metric, 1.0, self.better, 2, parts=((1.0, 1.0), (1.0, 1.0)))

    def decoding_rate(self, model: PreTrainedModel, teacher: Path) -> float | None:
        return None

    def forced(self, teacher: Path, count: int | None = None, whole_prefix: bool = False) -> list[dict[str, Any]]:
        return [self.batch()]


@pytest.mark.parametrize("method", [*COMPARING, *ALONE])
def test_methods_that_compare_queries_decode_without_a_cache(tmp_path: Path, method: str) -> None:
    run, task = RunFolder(tmp_path), Decoding()
    model = task.load(tmp_path)
    for name in ("train", "valid"):
        inputs = [{"input_ids": words(2, SOURCE), "decoder_input_ids": words(2, TARGET)} for _ in range(3)]
        record_traces(
            model, inputs, tmp_path / "traces" / name, dtype="float32", teacher=teacher_hash(model), kinds=["cross"]
        )
    asked = recipe([{"method": method, **COMPARING.get(method, {}), **ALONE.get(method, {})}],
                   accuracy={"windows": [0], "globals": [0]})  # fmt: skip
    fit(run, asked)
    with torch.no_grad():
        sweep_accuracy(run, asked, task)  # type: ignore[arg-type]
    assert task.calls == [False, method in COMPARING]
    (row,) = [row for row in read_points(run, "accuracy").to_pylist() if row["method"] == method]
    assert row["kinds"] == "cross"
    if method in ALONE:
        # All that a query sees is its own: as many pairs step by step as in the whole pass.
        assert row["decoding_sparsity"] == pytest.approx(row["sparsity"], abs=1e-6)
