"""What is timed is what the model does: its own queries, keys and values, in turns, by the turn."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from sparsefinder import Full, Layout, TraceWriter, Window, record, use_entmax
from sparsefinder.core.entmax import entmax
from sparsefinder.lab.bench.entries import REFERENCES, Entry, entries_of
from sparsefinder.lab.bench.layers import layers_of
from sparsefinder.lab.bench.measure import Timed, quality, time_unit, timed
from sparsefinder.traces.store import Traces

from ...synthetic import grouped
from ...tiny_models import make, words

SOFTMAX, FULL = REFERENCES
ENCODER, DECODER = ("encoder", 0), ("decoder", 0)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_layers_attend_as_they_do_in_the_model(family: str) -> None:
    model = use_entmax(make(family)).float()
    ids = words(2, 12)
    sites = [(attend, layer) for attend in ("encoder", "decoder") for layer in (0, 1)]
    layers = layers_of(model, {"input_ids": ids}, sites)
    assert len(layers) == 2
    with record(model) as records, torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    for layer, one, dense in zip(layers, records, weights, strict=True):
        assert layer.site == (one.kind, one.layer)
        # Keys that heads share are shared here too.
        groups = 2 if family == "llama" else 1
        assert layer.k.shape[1] * groups == layer.q.shape[1] == layer.v.shape[1] * groups
        mine = layer.attend(None)
        right = dense @ layer.v.repeat_interleave(groups, 1)
        torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(layer.attend(layer.find(Full())), mine, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(layer.attend(layer.find(Window(3)), exact=True), mine, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_softmax_is_that_of_the_same_scores(family: str) -> None:
    layer = layers_of(use_entmax(make(family)), {"input_ids": words(2, 9)}, [ENCODER, DECODER])[0]
    groups = layer.q.shape[1] // layer.k.shape[1]
    k, v = (each.repeat_interleave(groups, 1) for each in (layer.k, layer.v))
    scores = layer.q @ k.mT * (layer.q.shape[-1] ** -0.5)
    if family == "llama":
        scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(layer.softmax(), scores.softmax(-1) @ v)


def test_the_model_attends_as_before_after_it_was_listened_to() -> None:
    model = use_entmax(make("bert"))
    before = ALL_ATTENTION_FUNCTIONS["entmax"]
    layers_of(model, {"input_ids": words(1, 5)}, [ENCODER])
    with pytest.raises(ValueError, match="input_ids"):
        layers_of(model, {"no_such_input": words(1, 5)}, [ENCODER])
    assert ALL_ATTENTION_FUNCTIONS["entmax"] is before


def test_entries_take_turns_after_a_warm_up() -> None:
    done: list[str] = []

    def work(name: str, find: float, attend: float) -> Callable[[], tuple[float, float]]:
        def once() -> tuple[float, float]:
            done.append(name)
            return find * len(done), attend * len(done)

        return once

    warm: list[float] = []
    works = [work("a", 1.0, 2.0), work("a forward", 5.0, 0.0), work("b", 0.0, 4.0), work("b forward", 6.0, 0.0)]
    found = timed([SOFTMAX, FULL], works, lambda turn: len(warm) or warm.append(turn) or 2)
    assert done == ["a", "a forward", "b", "b forward"] * 3
    assert len(warm) == 1
    assert found[SOFTMAX] == Timed([5.0, 9.0], [10.0, 18.0], [30.0, 50.0])
    assert found[FULL].alone == [28.0, 44.0]


def test_ratios_are_those_of_each_turn_and_finding_counts() -> None:
    full, softmax = Timed([0.0, 0.0], [4.0, 40.0], [8.0, 80.0]), Timed([0.0, 0.0], [6.0, 60.0], [9.0, 90.0])
    row = Timed([1.0, 10.0], [1.0, 10.0], [3.0, 30.0]).row(full, softmax)
    assert {name: row[name] for name in ("to_full", "to_softmax", "forward_to_full", "forward_to_softmax")} == {
        "to_full": 2.0, "to_softmax": 3.0, "forward_to_full": pytest.approx(8 / 3), "forward_to_softmax": 3.0,
    }  # fmt: skip
    # The slow turn was slow for all.
    assert row["to_full_low"] == row["to_full_high"] == 2.0
    assert (row["find"], row["attend"], row["alone"], row["forward"]) == (5.5, 5.5, 11.0, 16.5)
    # Seconds are for one sequence, of however many there are in a turn.
    few = Timed([1.0, 10.0], [1.0, 10.0], [3.0, 30.0]).row(full, softmax, batch=2)
    assert (few["alone"], few["forward"], few["to_full"]) == (5.5, 8.25, 2.0)
    alone = Timed([1.0], [1.0]).row(Timed([0.0], [4.0]), Timed([0.0], [6.0]))
    assert "forward" not in alone


def test_a_unit_times_every_entry_alone_and_in_the_model() -> None:
    model = use_entmax(make("llama")).float()
    sites = [("decoder", 0), ("decoder", 1)]
    (window,) = entries_of("window:size=3")
    finders = {**{entry: {} for entry in REFERENCES}, window: {site: Window(3) for site in sites}}
    times, layers = time_unit(model, {"input_ids": words(2, 8)}, sites, finders, lambda turn: 2)
    assert list(times) == [*REFERENCES, window]
    assert len(layers) == 2
    for entry, each in times.items():
        assert len(each.alone) == len(each.forward) == 2
        assert min(each.attend) > 0
        assert (min(each.find) > 0) == entry.finds


def test_quality_is_that_of_every_pair_looked_at(tmp_path: Path) -> None:
    samples = [grouped(1, 14, seed=seed, noise=0.5, layout=Layout(causal=True)) for seed in range(3)]
    with TraceWriter(tmp_path / "traces", dtype="float32") as writer:
        for sample in samples:
            for layer in range(2):
                writer.add("decoder", layer, sample.q * (layer + 1), sample.k, sample.layout, sample.scale)
    window = Entry("window", (("size", 5),))
    finders = {FULL: {}, window: {("decoder", layer): Window(5) for layer in range(2)}}
    found, gold, sequences = quality(finders, Traces.open(tmp_path / "traces"))
    seen = torch.ones(14, 14).tril().bool()
    near = (torch.arange(14)[:, None] - torch.arange(14)).abs() <= 2
    recalls, golds = [], []
    for layer in range(2):
        for sample in samples:
            scores = ((layer + 1) * sample.q @ sample.k.mT).masked_fill(~seen, -torch.inf)
            weights = entmax(scores.double(), 1.5)[0] > 0
            recalls.append((weights & near).sum((-1, -2)) / weights.sum((-1, -2)))
            golds.append(1 - weights.sum((-1, -2)) / seen.sum())
    assert found[window] == pytest.approx(
        (float(torch.cat(recalls).mean()), 1 - float((near & seen).sum() / seen.sum()))
    )
    assert gold == pytest.approx(float(torch.cat(golds).mean()))
    assert sequences == 3
    assert found[FULL] == (1.0, 0.0)
