"""Sparsefinder: fitted to traces, chosen by recall, saved and loaded, used in a model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sparsefinder import GlobalTokens, Graph, InputError, Layout, Window, predicting, use_entmax
from sparsefinder.attending.gold import mass_missed
from sparsefinder.core.layout import Grid
from sparsefinder.core.metrics import GraphMetrics
from sparsefinder.finders import About, Finder, Fitting, Full, Heads, KMeans, methods
from sparsefinder.finders.base import Several
from sparsefinder.fitted import Sparsefinder
from sparsefinder.fitting import Wanted, choose
from sparsefinder.hf.recording import record_traces
from sparsefinder.learning.sample import Sample
from sparsefinder.traces.store import Traces
from sparsefinder.traces.writer import TraceWriter

from .finders.cases import CASES
from .finders.cases import HEADS as CASE_HEADS
from .finders.cases import tokens as case_tokens
from .synthetic import grouped
from .tiny_models import make, words

# Little enough for a few steps of learning to see through.
NOISE = 0.5
HOW = Fitting(restarts=2)
SETTINGS: dict[str, dict[str, Any]] = {
    "distance": {"t": 1.0},
    "quantization": {"beta": 4},
    "kmeans": {"clusters": 6},
    "routing": {"clusters": 6},
    "sketch": {"r": 4, "share": 0.2},
    "bent-sketch": {"r": 4, "share": 0.2, "units": 8, "steps": 5},
    "probe": {"clusters": 6, "probes": 1},
    "block-topk": {"block": 4, "k": 2},
    "block-centroids": {"block": 4, "k": 2, "clusters": 3},
    "window": {"size": 5},
    "reformer": {"buckets": 4},
    "sparq": {"r": 4, "share": 0.2},
    "loki": {"r": 4, "share": 0.2},
    "hash-attention": {"bits": 8, "share": 0.2, "steps": 5},
    "magicpig": {"bits": 3, "tables": 8},
    "smyrf": {"clusters": 4},
    "cluster-former": {"clusters": 6, "size": 8},
    "clustered": {"clusters": 6, "share": 0.2},
    "dsa": {"r": 4, "share": 0.2, "steps": 5},
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    path = tmp_path_factory.mktemp("traces") / "traces"
    with TraceWriter(path, dtype="float32") as writer:
        for seed in range(10):
            for layer in (0, 1):
                sample = grouped(2, seed=seed + 50 * layer, noise=NOISE)
                writer.add("encoder", layer, sample.q, sample.k, sample.layout, sample.scale)
    return Traces.open(path)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Whole sequences, ragged ones, causal ones, and cross-attention."""
    path = tmp_path_factory.mktemp("several") / "traces"
    some = torch.tensor([30, 21])
    layouts = {
        "plain": Layout(), "ragged": Layout(False, some, query_lengths=some), "causal": Layout(True),
        "causal ragged": Layout(True, some, query_lengths=some), "cross": Layout(False, some),
    }  # fmt: skip
    with TraceWriter(path, dtype="float32") as writer:
        for layer, (kind, layout) in enumerate(layouts.items()):
            for seed in range(5):
                sample = grouped(2, 30, seed=seed + 50 * layer, noise=NOISE, layout=layout)
                q = sample.q[:, :, :18] if kind == "cross" else sample.q
                writer.add(kind, layer, q, sample.k, layout, sample.scale)
    return Traces.open(path)


def _scores(fitted: Sparsefinder, site: tuple[str, int], seed: int = 200) -> GraphMetrics:
    metrics = GraphMetrics()
    held = grouped(6, seed=seed, noise=NOISE)
    metrics.update(fitted[site](held.q, held.k, held.layout), held.gold)
    return metrics


@pytest.mark.parametrize("method", SETTINGS)
def test_every_method_can_be_fitted_saved_and_loaded(traces: Traces, tmp_path: Path, method: str) -> None:
    fitted = Sparsefinder.fit(traces, method, **SETTINGS[method], how=HOW, extra=Window(3), batch=4)
    assert list(fitted) == traces.sites
    fitted.save_pretrained(tmp_path / "finders")
    again = Sparsefinder.from_pretrained(tmp_path / "finders")
    assert sorted(path.suffix for path in (tmp_path / "finders").iterdir()) == [".json", ".safetensors"]
    held = grouped(3, seed=200, noise=NOISE)
    for site in traces.sites:
        one, two = (each[site](held.q, held.k).dense() for each in (fitted, again))
        assert torch.equal(one, two)
        assert (one & Window(3)(held.q, held.k).dense()).sum() == Window(3)(held.q, held.k).count().sum()


@pytest.mark.parametrize("method", ["distance", "kmeans", "sketch", "probe"])
def test_what_is_learned_beats_chance(traces: Traces, method: str) -> None:
    fitted = Sparsefinder.fit(traces, method, **SETTINGS[method], how=HOW, batch=2)
    scores = _scores(fitted, ("encoder", 0)).compute()
    # Of pairs chosen at random, as many gold ones would be found as pairs are predicted.
    assert scores.recall > 1 - scores.sparsity + 0.3


@pytest.mark.parametrize("method", ["distance", "sketch", "topk"])
def test_a_wanted_sparsity_is_that_of_every_head(traces: Traces, method: str) -> None:
    fitted = Sparsefinder.fit(traces, method, sparsity=0.85)
    for site in traces.sites:
        assert (_scores(fitted, site).by_head("sparsity")[0] - 0.85).abs().max() < 0.05


@pytest.mark.parametrize("extra", [None, Window(3)], ids=["alone", "united"])
@pytest.mark.parametrize("method", ["distance", "sketch", "topk", "probe"])
def test_a_budget_is_that_of_all_layers_together(traces: Traces, method: str, extra: Finder | None) -> None:
    settings = {"clusters": 12} if method == "probe" else {}
    fitted = Sparsefinder.fit(traces, method, budget=0.15, extra=extra, **settings)
    kept = 1 - torch.cat([_scores(fitted, site).by_head("sparsity")[0] for site in traces.sites])
    # Clusters come whole.
    assert 0.05 < float(kept.mean()) < 0.17 + 0.05 * (method == "probe")
    assert len(fitted.about["sites"]) == len(traces.sites)
    assert fitted.about["budget"] == 0.15


def test_a_cost_is_that_of_all_heads_and_dimensions_are_worth_more_together(traces: Traces, tmp_path: Path) -> None:
    """Ranks that are allotted find at least what the one rank of that cost finds, on what they were chosen on."""

    def weight(fitted: Sparsefinder) -> float:
        missed = [
            mass_missed(fitted[site](each.q, each.k, each.layout), each.q, each.k, each.alpha, each.scale)
            for site in traces.sites
            for each in traces.samples(*site, batch=1, start=round(0.8 * len(traces.samples(*site, batch=1))))
        ]
        return 1 - float(torch.cat(missed).nanmean())

    n, d = next(iter(traces.samples(*traces.sites[0], batch=1))).q.shape[2:]
    alone = Sparsefinder.fit(traces, "sketch", r=4, budget=0.15)
    cost = alone[traces.sites[0]].cost(n, n, d) / (n * n * d)
    fitted = Sparsefinder.fit(traces, "sketch", r=[2, 4, 8], budget=0.15, cost=cost)
    assert sum(one.cost(n, n, d) for one in fitted.values()) / len(fitted) <= cost * n * n * d * (1 + 1e-9)
    assert weight(fitted) >= weight(alone) - 0.01
    assert fitted.about["cost"] == cost
    fitted.save_pretrained(tmp_path / "saved")
    loaded, (site, *_) = Sparsefinder.from_pretrained(tmp_path / "saved"), traces.sites
    each = next(iter(traces.samples(*site, batch=1)))
    assert torch.equal(
        loaded[site](each.q, each.k, each.layout).dense(), fitted[site](each.q, each.k, each.layout).dense()
    )


DIALS = [name for name, kind in methods().items() if kind.about.dials]
FITTED_WITH: dict[str, dict[str, Any]] = {
    "probe": {"clusters": 12}, "kmeans": {"clusters": 6}, "block-topk": {"block": 2},
    "block-centroids": {"block": 2, "clusters": 3}, "hash-attention": {"steps": 5}, "magicpig": {"bits": 2},
    "smyrf": {"clusters": 3}, "clustered": {"clusters": 6}, "dsa": {"steps": 5},
    "quest": {"page": 2}, "bent-sketch": {"units": 8, "steps": 5},
    "minference": {"vertical": 2}, "flexprefill": {"block": 2}, "xattention": {"block": 4, "stride": 2},
    "spargeattention": {"block": 2, "similarity": 0.1}, "seerattention": {"block": 2},
}  # fmt: skip


@pytest.mark.parametrize("extra", [None, Window(3) | GlobalTokens(1)], ids=["alone", "united"])
@pytest.mark.parametrize("method", DIALS)
def test_a_dial_reaches_the_recall_on_the_sequences_it_was_set_on(
    several: Traces, method: str, extra: Finder | None
) -> None:
    """Exactly: every head has the recall, and would not have it without the pairs that needed the setting most."""
    fitted = Sparsefinder.fit(
        several, method, recall=0.9, held_out=0.4, extra=extra, how=HOW, **FITTED_WITH.get(method, {})
    )
    for place, site in enumerate(several.sites):
        held, metrics, less = several.samples(*site, 3, start=6), GraphMetrics(), GraphMetrics()
        finder = fitted[site].finders[0] if extra is not None else fitted[site]
        dial = finder.dial
        setting = torch.as_tensor(getattr(finder, dial.field))
        lower = (setting - 1 if dial.whole else setting * (1 - 1e-5)).clamp(min=dial.least)
        for sample in held:
            gold = sample.gold
            for each, one in ((metrics, finder), (less, finder.turned(lower))):
                whole = one if extra is None else one | extra
                each.update(whole(sample.q, sample.k, sample.layout), gold)
        recalls, before = (each.by_head("recall")[0] for each in (metrics, less))
        assert (recalls > 0.9 - 1e-6).all()
        assert ((before < 0.9) | (setting <= dial.least * (1 + 1e-5))).all()
        said = fitted.about["sites"][place]
        assert said["recall"] == pytest.approx(recalls.tolist(), abs=1e-5)
        assert said["sparsity"] == pytest.approx(metrics.by_head("sparsity")[0].tolist(), abs=0.05)


@pytest.mark.parametrize("method", ["distance", "sketch", "probe", "kmeans"])
def test_a_wanted_recall_is_reached_on_new_sequences(traces: Traces, method: str) -> None:
    more: dict[str, Any] = {"probe": {"clusters": 12}, "kmeans": {"clusters": [2, 6]}}.get(method, {})
    fitted = Sparsefinder.fit(traces, method, recall=0.9, held_out=0.4, how=HOW, **more)
    for site in traces.sites:
        recalls = _scores(fitted, site).by_head("recall")[0]
        assert (recalls > 0.83).all()


def test_methods_without_a_dial_are_searched(traces: Traces) -> None:
    fitted = Sparsefinder.fit(traces, "strided", recall=0.5, stride=[2, 3, 5, 9])
    assert (_scores(fitted, ("encoder", 0)).by_head("recall")[0] > 0.4).all()
    with pytest.warns(UserWarning, match=r"routing: no setting has a recall of 1.0 in every head of encoder layer 0"):
        Sparsefinder.fit(traces, "routing", recall=1.0, clusters=[6, 8])


def test_less_recall_is_sparser_and_heads_may_differ(traces: Traces) -> None:
    high, low = (Sparsefinder.fit(traces, "sketch", recall=recall, r=4) for recall in (0.999, 0.5))
    sparse = [_scores(each, ("encoder", 1)).compute().sparsity for each in (high, low)]
    assert sparse[0] < sparse[1]


def test_per_head_choices_are_saved(traces: Traces, tmp_path: Path) -> None:
    fitted = Sparsefinder.fit(traces, "kmeans", recall=0.8, clusters=[2, 6], how=HOW, extra=GlobalTokens(1))
    fitted.save_pretrained(tmp_path / "finders")
    again = Sparsefinder.from_pretrained(tmp_path / "finders")
    assert again.about == fitted.about
    held = grouped(3, seed=200, noise=NOISE)
    for site in traces.sites:
        assert torch.equal(fitted[site](held.q, held.k).dense(), again[site](held.q, held.k).dense())


def test_heads_may_take_different_finders() -> None:
    # One head attends to itself alone, the other to everything.
    q = torch.stack([20 * torch.eye(8), torch.zeros(8, 8)])[None]
    found = choose([Window(1), Full()], [Sample(q, q)], Wanted(recall=0.9), turn=False)
    assert isinstance(found.finder, Heads)
    assert found.recall == [1.0, 1.0]
    assert found.sparsity == pytest.approx([7 / 8, 0.0])
    assert torch.equal(found.finder(q, q).count(), torch.tensor([[8, 64]]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_finder_survives_saving(tmp_path: Path, case: Any) -> None:
    Sparsefinder({("encoder", 0): case.finder}).save_pretrained(tmp_path / "finders")
    again = Sparsefinder.from_pretrained(tmp_path / "finders")[("encoder", 0)]
    q, k = case_tokens(2, 9, 9)
    assert q.shape[1] == CASE_HEADS
    assert torch.equal(again(q, k).dense(), case.finder(q, k).dense())


def test_fitting_is_repeatable(traces: Traces) -> None:
    one, two = (Sparsefinder.fit(traces, "kmeans", clusters=4, how=Fitting(seed=7, restarts=1)) for _ in range(2))
    held = grouped(2, seed=200, noise=NOISE)
    assert torch.equal(one["encoder", 0](held.q, held.k).dense(), two["encoder", 0](held.q, held.k).dense())


def test_a_fitted_one_predicts_in_a_model(tmp_path: Path) -> None:
    model = use_entmax(make("bert"))
    inputs = [{"input_ids": words(2, 12)} for _ in range(4)]
    recorded = record_traces(model, inputs, tmp_path / "traces", dtype="float32")
    # With all ranks the sketch's scores are the real ones, and 2 below the best is the most that 1.5-entmax supports.
    fitted = Sparsefinder.fit(recorded, "sketch", r=8, slack=2.001)
    with torch.no_grad():
        full = model(**inputs[0]).logits
        with predicting(model, fitted):
            predicted = model(**inputs[0]).logits
        with predicting(model, Window(1)):
            poor = model(**inputs[0]).logits
    assert torch.allclose(full, predicted, atol=1e-4)
    assert not torch.allclose(full, poor, atol=1e-1)


def test_finders_that_look_ahead_are_told_apart(traces: Traces) -> None:
    safe = {"distance", "kmeans", "sketch", "probe"}
    for method in ("distance", "kmeans", "sketch", "probe", "quantization", "routing", "block-topk"):
        fitted = Sparsefinder.fit(traces, method, **SETTINGS[method], how=HOW)
        assert fitted["encoder", 0].causal_safe == (method in safe)


def test_what_cannot_be_is_refused(traces: Traces, tmp_path: Path) -> None:
    class Own(Finder):
        about = About("own", "own", "rival")

        def find(self, q: Any, k: Any, grid: Grid) -> Graph:
            return Graph.full(grid)

    with pytest.raises(InputError, match="did you mean 'kmeans'"):
        Sparsefinder.fit(traces, "kmean")
    with pytest.raises(InputError, match="recall: got 2"):
        Sparsefinder.fit(traces, "sketch", recall=2.0)
    with pytest.raises(InputError, match="budget: got for routing, want a method with a dial"):
        Sparsefinder.fit(traces, "routing", clusters=4, budget=0.1)
    with pytest.raises(InputError, match="budget: got with share=0.1, want without share"):
        Sparsefinder.fit(traces, "sketch", share=0.1, budget=0.1)
    with pytest.raises(InputError, match="single values beside a budget, or a cost too"):
        Sparsefinder.fit(traces, "sketch", r=[2, 4], budget=0.1)
    with pytest.raises(InputError, match=r"cost: got 0\.2, want settings of sketch to choose among"):
        Sparsefinder.fit(traces, "sketch", r=2, budget=0.1, cost=0.2)
    with pytest.raises(InputError, match=r"cost: got 0\.2, want a budget beside it"):
        Sparsefinder.fit(traces, "sketch", r=[2, 4], recall=0.9, cost=0.2)
    with pytest.raises(InputError, match=r"cost: got 0\.01, want at least .* which the cheapest"):
        Sparsefinder.fit(traces, "sketch", r=[2, 4], budget=0.1, cost=0.01)
    with pytest.raises(InputError, match="held_out"):
        Sparsefinder.fit(traces, "sketch", recall=0.9, held_out=1.0)
    with pytest.raises(InputError, match="inputs: got 'raw', want what window takes: none"):
        Sparsefinder.fit(traces, "window", recall=0.9, inputs="raw")
    with pytest.raises(InputError, match="single values"):
        Sparsefinder.fit(traces, "kmeans", clusters=[2, 4])
    with pytest.raises(InputError, match="sparsefinder.register"):
        Sparsefinder({("encoder", 0): Own()}).save_pretrained(tmp_path / "finders")
    with pytest.raises(InputError, match="save_pretrained"):
        Sparsefinder.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"traces": "runs/demo/traces"}, r"traces: got a str, want traces: Traces.open\(path\)"),
        ({"traces": Path("runs")}, r"traces: got a PosixPath, want traces: Traces.open\(path\)"),
        ({"method": Window}, "method: got the class Window, want the name of a method"),
        ({"method": Window(3)}, "method: got a Window, want the name of a method"),
        ({"extra": "global"}, "extra: got a str, want a finder, such as"),
        ({"extra": GlobalTokens}, "extra: got the class GlobalTokens, want a finder"),
        ({"how": {"seed": 1}}, "how: got a dict, want Fitting"),
        ({"held_out": "0.2"}, "held_out: got '0.2', want a share of the sequences"),
        ({"projections": {}}, r"projections: got none for \('encoder', 0\), want one for every kind and layer"),
    ],
)
def test_what_cannot_be_fitted_is_said_before_anything_is_learned(traces: Traces, given: Any, want: str) -> None:
    with pytest.raises(InputError, match=want):
        Sparsefinder.fit(**{"traces": traces, "method": "kmeans", "clusters": 3, "progress": False, **given})


def test_finders_that_are_none(tmp_path: Path) -> None:
    for wrong in ({"encoder": Window(3)}, {("encoder", "0"): Window(3)}, {0: Window(3)}):
        with pytest.raises(InputError, match=r"finders: got the key .*, want a mapping from \(kind, layer\) to a find"):
            Sparsefinder(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"finders of \('encoder', 0\): got a str, want a mapping"):
        Sparsefinder({("encoder", 0): "window"})  # type: ignore[dict-item]
    for what, given in (("a Window", Window(3)), ("a str", "runs/demo/finders")):
        with pytest.raises(InputError, match=f"finders: got {what}, want a mapping .*from_pretrained"):
            Sparsefinder(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path: got None, want a folder that save_pretrained wrote"):
        Sparsefinder.from_pretrained(None)  # type: ignore[arg-type]
    one = Sparsefinder({("encoder", 0): Window(3)})
    one.save_pretrained(tmp_path)
    (tmp_path / "finders.safetensors").unlink()
    with pytest.raises(
        InputError, match="path: got .* without finders.safetensors, want a folder that save_pretrained"
    ):
        Sparsefinder.from_pretrained(tmp_path)
    (tmp_path / "finders.json").write_text("[]")
    with pytest.raises(InputError, match=r"finders.json: got a list, want the file as it was written"):
        Sparsefinder.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="finders.json, which is a file, want the name of a folder"):
        one.save_pretrained(tmp_path / "finders.json")


@pytest.mark.parametrize(
    "case", [case for case in CASES if not isinstance(case.finder, Several | Heads)], ids=lambda case: case.name
)
def test_tensors_of_another_shape_are_refused(tmp_path: Path, case: Any) -> None:
    """A head less, or a dimension less, in any of the tensors that a finder was saved with."""
    Sparsefinder({("encoder", 0): case.finder}).save_pretrained(tmp_path)
    file = tmp_path / "finders.safetensors"
    tensors = load_file(file)
    # What alone says how many heads there are may have any number of them, until it meets queries.
    several = len(tensors) > 1
    for name, tensor in tensors.items():
        for other in [tensor[None], *([tensor[1:].contiguous()] if several else [])]:
            save_file({**tensors, name: other}, file)
            # Maps check their dimensions themselves.
            said = "finder|maps|queries" if "projection" in name else r"of the shape \(.*\), want .* heads"
            with pytest.raises(InputError, match=said):
                Sparsefinder.from_pretrained(tmp_path)


def test_queries_of_another_number_of_heads_are_refused() -> None:
    q, k = torch.randn(2, 1, 4, 9, 8)
    for one in (KMeans(2, centroids=torch.randn(3, 2, 8)), Window(torch.tensor([1, 3, 5]))):
        with pytest.raises(InputError, match=f"q: got 4 heads, want 3, as this {one.about.name} was made for"):
            one(q, k)


def test_methods_that_draw_take_the_seed(traces: Traces) -> None:
    def drawn(**more: Any) -> Any:
        return Sparsefinder.fit(traces, "bigbird", random_blocks=2, progress=False, **more)["encoder", 0]

    assert drawn(how=Fitting(seed=1)) == drawn(how=Fitting(seed=1)) == drawn(seed=1) != drawn(how=Fitting(seed=2))
