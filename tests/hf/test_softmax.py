"""Softmax models as they come: loaded, traced, fitted and run with predictions; what is lost is what was left out."""

from pathlib import Path

import pytest
import torch

from sparsefinder import Sparsefinder, load_model, predicting, record_traces
from sparsefinder.attending.gold import mass_missed

from ..tiny_models import make, run, words


@pytest.mark.parametrize("family", ["bert", "llama", "qwen"])
def test_an_unmodified_checkpoint_runs_with_predictions(family: str, tmp_path: Path) -> None:
    plain = make(family).float()
    plain.save_pretrained(tmp_path / "plain")
    model = load_model(tmp_path / "plain", alpha=1.0).eval()
    ids = words(2, 24)
    torch.testing.assert_close(run(model, ids), run(plain, ids), atol=1e-4, rtol=1e-4)
    batches = [{"input_ids": words(2, 24)} for _ in range(4)]
    traces = record_traces(model, batches, tmp_path / "traces", mass=0.9)
    missed, changed = [], []
    for recall in (0.8, 0.99):
        fitted = Sparsefinder.fit(traces, "sketch", r=4, steps=20, recall=recall, progress=False)
        assert all(min(site["recall"]) >= recall - 0.02 for site in fitted.about["sites"])
        lost = [
            mass_missed(fitted[site](each.q, each.k, each.layout), each.q, each.k, each.alpha, each.scale)
            for site in traces.sites
            for each in traces.samples(*site, batch=4)
        ]
        missed.append(float(torch.cat(lost).mean()))
        with torch.no_grad(), predicting(model, fitted):
            changed.append(float((run(model, ids) - run(plain, ids)).abs().mean()))
    # Nearly all keys with 90 % of the weight of a row are found, so that about a tenth is missed at the most.
    assert missed[1] < missed[0]
    assert missed[1] < 0.12
    assert changed[1] < changed[0]
