"""The fit stage: what the finders' own fitting learns, once, on any number of processes, going on after a kill."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsefinder.errors import InputError
from sparsefinder.finders import BlockTopK, Fitting, KMeans, Oracle, Place, Reformer
from sparsefinder.lab.engines import JobError
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Method
from sparsefinder.lab.sweep import fit_stage as module
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.run_finders import RunFinders
from sparsefinder.lab.sweep.settings import expand
from sparsefinder.learning.learn import learn
from sparsefinder.learning.projection import Projection
from sparsefinder.traces.store import Site, Traces

from .runs import folder, recipe

KMEANS = [{"method": "kmeans", "clusters": [3, 6], "top_k": [1, 2]}, {"method": "routing", "clusters": 3}]


def _contents(run: RunFolder) -> dict[str, bytes]:
    root = run / "finders"
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def learned(traces: Traces, site: Site, **more: Any) -> Projection:
    """Few sequences come one at a time, as often as it takes for 32 steps."""
    samples = traces.samples(*site, 1, seed=0)
    assert len(samples) < 64
    return learn(samples, 4, epochs=math.ceil(32 / len(samples)), **more)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = folder(tmp_path_factory.mktemp("run"))
    fit(run, recipe(KMEANS))
    return run


def test_fitted_finders_are_what_they_would_be_alone(fitted: RunFolder) -> None:
    assert sorted(path.name for path in (fitted / "finders").iterdir() if not path.name.startswith(".")) == [
        "kmeans-projected-clusters=3", "kmeans-projected-clusters=6", "projection", "routing-raw-clusters=3",
    ]  # fmt: skip
    traces = Traces.open(fitted / "traces/train")
    samples = traces.samples("decoder", 1, 4, seed=0)
    projection = learned(traces, ("decoder", 1))
    wanted = KMeans(6, 2, projection).fit(samples, Fitting(restarts=2))
    (setting,) = expand(Method(method="kmeans", settings={"clusters": 6, "top_k": 2}))
    found = RunFinders(fitted, 0).at(setting, ("decoder", 1))
    assert isinstance(found, KMeans)
    assert found.top_k == 2
    assert found.centroids is not None
    assert wanted.centroids is not None
    assert torch.equal(found.centroids, wanted.centroids)
    assert found.projection is not None
    assert torch.equal(found.projection.queries, projection.queries)


def test_a_budget_is_spent_on_all_layers(tmp_path: Path) -> None:
    run, methods = folder(tmp_path), [{"method": "sketch", "r": 4, "budget": [0.05, 0.1]}]
    fit(run, recipe(methods))
    traces = Traces.open(run / "traces/train")
    for setting in expand(Method(method="sketch", settings={"r": 4, "budget": [0.05, 0.1]})):
        found = RunFinders(run, 0).of(setting)
        kept = [
            1 - float(found[site](sample.q, sample.k, sample.layout).sparsity().nanmean())
            for site in traces.sites
            for sample in traces.samples(*site, batch=4)
        ]
        assert sum(kept) / len(kept) == pytest.approx(setting.values["budget"], abs=0.03)
        saved = json.loads((run / "finders" / setting.name / "finders.json").read_text())["about"]
        assert [sorted(site) for site in saved["sites"]] == [["kind", "layer", "recall", "sparsity"]] * len(found)
    with pytest.raises(InputError, match="its graphs are not nested"):
        expand(Method(method="routing", settings={"clusters": 3, "budget": 0.1}))


def test_maps_are_learned_for_blocks_and_how_they_are_pooled(tmp_path: Path) -> None:
    run = folder(tmp_path)
    given = {"block": 2, "k": 1, "pooling": ["mean", "concat"]}
    fit(run, recipe([{"method": "block-topk", **given}]))
    traces, found = Traces.open(run / "traces/train"), {}
    for setting in expand(Method(method="block-topk", settings=given)):
        one = RunFinders(run, 0).at(setting, ("encoder", 0))
        assert isinstance(one, BlockTopK)
        assert one.projection is not None
        found[one.pooling] = one.projection.queries
        wanted = learned(traces, ("encoder", 0), block=2, pooling=one.pooling)
        assert torch.equal(one.projection.queries, wanted.queries)
    assert not torch.equal(found["mean"], found["concat"])


def test_nothing_is_fitted_twice(fitted: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _contents(fitted)
    monkeypatch.setattr(module, "fit_finder", None)
    monkeypatch.setattr(module, "learn_maps", None)
    fit(fitted, recipe(KMEANS))
    assert _contents(fitted) == before
    # What is not in the key of anything may change.
    fit(fitted, recipe(KMEANS, processes=2))
    with pytest.raises(JobError, match="projection, encoder layer 0"):
        fit(fitted, recipe(KMEANS, fit={"batch": 2}))
    assert _contents(fitted) == before


def test_an_interrupted_fit_goes_on(fitted: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, calls = folder(tmp_path), []
    one = module.fit_finder

    def interrupted(*given: Any) -> Any:
        calls.append(given[0])
        if len(calls) == 5:
            raise KeyboardInterrupt
        return one(*given)

    monkeypatch.setattr(module, "fit_finder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(other, recipe(KMEANS))
    assert not list((other / "finders").glob("kmeans*"))
    fit(other, recipe(KMEANS))
    # Two layers of three fits, and the one that was interrupted.
    assert len(calls) == 7
    assert _contents(other) == _contents(fitted)


def test_two_processes_fit_the_same(fitted: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(fitted.path, tmp_path / "run", ignore=shutil.ignore_patterns("kmeans*", "routing*"))
    other = RunFolder(tmp_path / "run")
    fit(other, recipe(KMEANS, processes=2))
    assert _contents(other) == _contents(fitted)


def test_finders_know_their_layer(fitted: RunFolder) -> None:
    finders = RunFinders(fitted, 7)
    (oracle,) = expand(Method(method="oracle"))
    for one in finders.of(oracle).values():
        assert isinstance(one, Oracle)
        assert (one.alpha, one.scale) == (1.5, 1.0)
    (reformer,) = expand(Method(method="reformer", settings={"buckets": 4}))
    found = finders.at(reformer, ("encoder", 0))
    assert isinstance(found, Reformer)
    assert (found.shared, found.seed) == (True, 7)
    assert not Reformer(4).at(Place("cross", 0)).shared
