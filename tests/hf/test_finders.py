"""Finders in models: which sites they are for, within a block or for good, and what they predict of records."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sparsefinder import (
    Full,
    GlobalTokens,
    Graph,
    InputError,
    Sparsefinder,
    Window,
    finders_of,
    load_model,
    predicting,
    record,
    save_model,
    use_entmax,
    use_finders,
)
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About, BigBird, Distance, Finder, Heads, KMeans, Quantization, RandomBlocks, Strided
from sparsefinder.finders.base import Keys, Queries

from ..tiny_models import MODELS, SEQUENCE_TO_SEQUENCE, make, padded, run, words

PREDICTED = Window(3) | GlobalTokens(1)


def test_finders_by_kind_layer_and_function() -> None:
    model, ids = use_entmax(make("marian")), words(2, 8)
    used: list[tuple[str, int]] = []

    class Spy(Finder):
        about = About("spy", "spy", "rival")

        def __init__(self, name: tuple[str, int]) -> None:
            object.__setattr__(self, "name", name)

        def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
            used.append(self.name)  # type: ignore[attr-defined]
            return Graph.full(grid)

    with predicting(model, {"cross": Spy(("cross", -1)), ("decoder", 1): Spy(("decoder", 1))}):
        run(model, ids)
    assert used == [("cross", -1), ("decoder", 1), ("cross", -1)]
    used.clear()
    with predicting(model, lambda kind, layer: Spy((kind, layer)) if kind == "encoder" else None):
        run(model, ids)
    assert used == [("encoder", 0), ("encoder", 1)]
    used.clear()
    with predicting(model, Spy(("any", 0)), kinds=["encoder", "decoder"], layers=[0]):
        run(model, ids)
    assert len(used) == 2


@pytest.mark.parametrize("family", ["bert", "marian", "llama"])
def test_for_good_is_as_within_a_block(family: str) -> None:
    model, ids = use_entmax(make(family)), words(2, 9)
    full = run(model, ids)
    with predicting(model, PREDICTED):
        wanted = run(model, ids)
    assert use_finders(model, PREDICTED) is model
    torch.testing.assert_close(run(model, ids), wanted)
    with predicting(model, Full()):
        torch.testing.assert_close(run(model, ids), full)
    # What was on before the block is on after it.
    torch.testing.assert_close(run(model, ids), wanted)
    use_finders(model, PREDICTED, exact=True)
    torch.testing.assert_close(run(model, ids), full)
    use_finders(model, None)
    torch.testing.assert_close(run(model, ids), full)
    assert len(finders_of(model)) == 0


def test_finders_of_some_sites() -> None:
    model = use_entmax(make("marian"))
    use_finders(model, Window(3), kinds=["encoder"])
    use_finders(model, {("decoder", 1): Window(5)}, kinds=["decoder"])
    assert dict(finders_of(model)) == {
        ("encoder", 0): Window(3), ("encoder", 1): Window(3), ("decoder", 1): Window(5),
    }  # fmt: skip
    use_finders(model, None, layers=[1])
    assert dict(finders_of(model)) == {("encoder", 0): Window(3)}
    with predicting(model, Full()):
        assert set(finders_of(model).values()) == {Full()}
        assert len(finders_of(model)) == 6
    assert dict(finders_of(model)) == {("encoder", 0): Window(3)}


def test_a_refused_choice_changes_nothing() -> None:
    model = use_finders(use_entmax(make("bert")), Window(3))
    with pytest.raises(InputError, match="finders: got the key 'cross'"):
        use_finders(model, {"cross": Full()})
    with pytest.raises(InputError, match="layers: got 9"):
        use_finders(model, None, layers=[9])
    assert set(finders_of(model).values()) == {Window(3)}


def test_what_is_known_of_a_fit_stays_with_it() -> None:
    model = use_entmax(make("bert"))
    fitted = Sparsefinder({("encoder", 0): Window(3), ("encoder", 1): Window(5)}, {"method": "window"})
    use_finders(model, fitted)
    assert finders_of(model).about == {"method": "window"}
    use_finders(model, Full(), layers=[0])
    assert finders_of(model).about == {}, "a mixture was not fitted together"


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("finder", [PREDICTED, BigBird(1, 2, 3, 1), Strided(2)], ids=["window", "bigbird", "strided"])
def test_records_predict_with_their_layout(family: str, side: str, finder: Finder) -> None:
    """A finder predicts for padded input what it predicts for queries and keys in the layout they were recorded with:
    never a pair of padding.
    """
    model, lengths = use_entmax(make(family)), [10, 6]
    batch = padded(words(2, 10), lengths, side)
    more = {"decoder_input_ids": words(2, 5)} if family in SEQUENCE_TO_SEQUENCE else {}
    with torch.no_grad(), record(model) as records:
        model(**batch, **more)
    assert records
    for one in records:
        graph = one.predict(finder)
        wanted = finder(one.q, one.k, one.layout).dense()
        if one.allowed is not None:
            wanted = wanted & one.allowed.dense()
        assert torch.equal(graph.dense(), wanted)
        if one.kind != "decoder" or not more:
            # Sequences are at the front in a record, on whichever side they were padded.
            assert not graph.dense()[1, :, :, lengths[1] :].any()
        assert (graph.recall(one.gold) <= 1).all()


@pytest.mark.parametrize("side", ["right", "left"])
def test_records_predict_what_each_sequence_gets_alone(side: str) -> None:
    model, ids, lengths = use_entmax(make("roberta")), words(2, 10), [10, 6]

    def graphs(**inputs: Tensor) -> list[Tensor]:
        with torch.no_grad(), record(model) as records:
            model(**inputs)
        return [one.predict(PREDICTED).dense() for one in records]

    together = graphs(**padded(ids, lengths, side))
    for row, length in enumerate(lengths):
        for both, alone in zip(together, graphs(input_ids=ids[row : row + 1, :length]), strict=True):
            assert torch.equal(both[row, :, :length, :length], alone[0])


def test_records_and_finders_print_without_their_tensors() -> None:
    model = use_entmax(make("llama"))
    with torch.no_grad(), record(model) as records:
        run(model, words(2, 7))
    said = "Record(decoder layer 0: 2 sequences, 4 heads of 8 dimensions, 7 queries, 7 keys, causal)"
    assert repr(records[0]) == said
    many = {("encoder", layer): Window(3) for layer in range(40)}
    per_head = Heads((Window(3), Window(5), Window(7)), (0, 1, 1, 2))
    finders: dict[tuple[str, int], Finder] = {
        ("cross", 0): KMeans(6, 2, centroids=torch.randn(4, 6, 8)) | Window(3),
        ("cross", 1): Distance(torch.tensor([1.0, 2.5])),
        ("cross", 2): per_head,
    }
    sites = [{"kind": "cross", "layer": 0, "recall": [0.9, 1.0], "sparsity": [0.5, 0.7]}]
    said = repr(Sparsefinder({**finders, **many}, {"method": "kmeans", "sites": sites}))
    lines = said.splitlines()
    assert lines[0] == "Sparsefinder: 43 layers of kmeans"
    assert lines[1].split(maxsplit=2)[2].endswith("| Window(size=3)  recall 0.950, sparsity 0.600")
    assert "Distance(t=1 to 2.5)" in lines[2]
    assert "Window in 3 settings for 4 heads" in lines[3]
    assert lines[-1].split() == ["and", "31", "more"]
    assert len(lines) < 20
    assert "tensor" not in said
    assert repr(Sparsefinder({})) == "Sparsefinder: 0 layers"


def test_recording_to_a_sink_keeps_nothing_and_ends() -> None:
    model, seen = use_entmax(make("marian")), []
    with record(model, seen.append, kinds=["cross"], layers=[1]) as records:
        run(model, words(2, 6))
    run(model, words(2, 6))
    assert records == []
    assert [(one.kind, one.layer) for one in seen] == [("cross", 1)]
    assert seen[0].q.shape[:3] == (2, 4, 5)
    assert seen[0].k.shape[:3] == (2, 4, 6)


def test_a_finder_that_looks_ahead_refuses_to_decode() -> None:
    model = use_entmax(make("gpt2"))
    ahead = GlobalTokens(1, last=True)
    with predicting(model, ahead):
        run(model, words(1, 6))
        with pytest.raises(InputError, match="finder of decoder layer 0: got GlobalTokens.*, to decode step by step"):
            model.generate(words(1, 6), max_new_tokens=3)


def test_a_finder_that_compares_queries_refuses_cross_attention_step_by_step() -> None:
    """In a whole pass it has all queries; while decoding with a cache, it would see one, and predict something else."""
    model, source = use_entmax(make("marian")), words(1, 6)
    with predicting(model, Quantization(2), kinds=["cross"]):
        run(model, source, decoder_input_ids=words(1, 5))
        with pytest.raises(
            InputError, match="finder of cross layer 0: got Quantization, .* other queries, want one with"
        ):
            model.generate(source, max_new_tokens=4, min_new_tokens=4, do_sample=False, num_beams=1)


def test_one_finder_for_all_layers_draws_anew_in_each(tmp_path: Path) -> None:
    """As in runs; what is saved with a model draws the same when it is loaded."""
    model, ids = use_entmax(make("marian")), words(1, 24)
    for given in (RandomBlocks(2), {kind: Window(1) | RandomBlocks(2) for kind in ("encoder", "decoder", "cross")}):
        with torch.no_grad(), predicting(model, given), record(model) as records:
            out = run(model, ids, decoder_input_ids=ids)
            found = finders_of(model)
        drawn = [found[one.kind, one.layer](one.q, one.k, one.layout).dense() for one in records]
        for one, other in itertools.combinations(drawn, 2):
            assert not torch.equal(one, other)
        save_model(use_finders(model, given), tmp_path)
        use_finders(model, None)
        with torch.no_grad():
            torch.testing.assert_close(run(load_model(tmp_path).double(), ids, decoder_input_ids=ids), out)
    # What is told of one layer is used as it is; what has no draws is the same everywhere.
    with predicting(model, {("encoder", 1): RandomBlocks(2), "decoder": PREDICTED}):
        assert finders_of(model)["encoder", 1] == RandomBlocks(2)
        assert finders_of(model)["decoder", 0] is finders_of(model)["decoder", 1] is PREDICTED
