"""Counts for all windows from one pass: those of the union with each window, counted one by one."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder import Graph
from sparsefinder.core.metrics import Counts, count
from sparsefinder.finders import Distance, Finder, GlobalTokens, KMeans, Oracle, Window
from sparsefinder.lab.sweep import tally as module
from sparsefinder.lab.sweep.masks import GraphMasks, masks_of
from sparsefinder.lab.sweep.tally import GoldPairs, Tally, tally
from sparsefinder.learning.sample import Sample
from sparsefinder.testing import SCENES

from ... import cases
from ...finders.cases import APART, CASES, CENTROIDS, SHARED, tokens

WINDOWS, GLOBALS = (0, 1, 4, 9, 40), (0, 2)


def _sample(scene: str, dtype: torch.dtype = torch.float64) -> Sample:
    sizes, layout = SCENES[scene]
    q, k = tokens(*sizes)
    return Sample(4 * q.to(dtype), k.to(dtype), layout)


def _check(found: Tally, variant: int, graph: Graph, sample: Sample) -> None:
    """Against the brute force: the matrix of every union, compared with that of the gold graph row by row."""
    alone, gold, grid = graph.dense(), sample.gold.dense(), graph.grid
    asks = (grid.degrees() > 0)[:, None]
    for w, window in enumerate(WINDOWS):
        local = Window(window)(sample.q, sample.k, sample.layout).dense()
        for g, few in enumerate(GLOBALS):
            mask = alone | local | GlobalTokens(few)(sample.q, sample.k, sample.layout).dense()
            wanted = {
                "predicted": mask.sum((-1, -2)),
                "hits": (mask & gold).sum((-1, -2)),
                "complete": (~(gold & ~mask).any(-1) & asks).sum(-1),
                "empty": (~mask.any(-1) & asks).sum(-1),
            }
            for name, counts in wanted.items():
                assert np.array_equal(getattr(found, name)[variant, g, w], counts.numpy()), (name, window, few)


def _one_by_one(finder: Finder, sample: Sample) -> None:
    gold = GoldPairs(sample, WINDOWS, GLOBALS)
    (masks,) = masks_of([finder], sample)
    _check(tally(masks, gold), 0, finder(sample.q, sample.k, sample.layout), sample)


MATRIX = [
    pytest.param(case.finder, scene, id=f"{case.name}, {scene}")
    for case in CASES
    for scene, (sizes, layout) in SCENES.items()
    if not (case.self_attention_only and sizes[1] != sizes[2])
    and (case.finder.causal_safe or not (layout.causal and sizes[1] != sizes[2]))
]


@pytest.mark.parametrize(("finder", "scene"), MATRIX)
def test_one_pass_counts_what_each_union_has(finder: Finder, scene: str) -> None:
    _one_by_one(finder, _sample(scene))


@pytest.mark.parametrize("scene", SCENES)
def test_small_tiles_count_the_same(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 4)
    monkeypatch.setattr(module, "FEW_ROWS", 3)
    for case in CASES[::4]:
        if case.finder.causal_safe and not case.self_attention_only:
            _one_by_one(case.finder, _sample(scene))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scene", ["plain", "causal ragged", "cross ragged"])
def test_all_thresholds_of_distance_share_a_pass(scene: str, squared: bool) -> None:
    # A grid of whole numbers: many pairs lie exactly at a threshold.
    sample = _sample(scene, torch.float32)
    sample = Sample(sample.q.round(), sample.k.round(), sample.layout)
    finders: list[Finder] = [Distance(t, squared) for t in (0.0, 1.0, 2.0, 3.0, 5.0)]
    finders += [Distance(torch.tensor([1.0, 2.0, 3.0]), squared)]
    gold = GoldPairs(sample, WINDOWS, GLOBALS)
    (masks,) = masks_of(finders, sample)
    found = tally(masks, gold)
    for variant, finder in enumerate(finders):
        _check(found, variant, finder(sample.q, sample.k, sample.layout), sample)


def test_predictions_come_in_the_order_of_their_finders() -> None:
    sample = _sample("plain")
    gold = GoldPairs(sample, WINDOWS, GLOBALS)
    near = [Distance(t, projection=SHARED) for t in (1.0, 2.0, 1.5)]
    finders = [*near[:2], Window(3), Oracle(1.5, sample.score_scale), near[2], Distance(2.0, projection=APART)]
    every = masks_of(finders, sample)
    assert [masks.variants for masks in every] == [2, 1, 1, 1, 1]
    counts = [tally(masks, gold) for masks in every]
    for (found, variant), finder in zip(
        [(each, variant) for each in counts for variant in range(len(each.hits))], finders, strict=True
    ):
        _check(found, variant, finder(sample.q, sample.k, sample.layout), sample)


def test_many_buckets_take_several_words() -> None:
    sample = _sample("plain")
    grid = sample.layout.of(sample.q, sample.k)
    graph = cases.bucket_graph(grid, 150, 40, 40)
    gold = GoldPairs(sample, WINDOWS, (0,))
    found = tally(GraphMasks(graph), gold)
    assert np.array_equal(found.predicted[0, 0, 0], graph.count().numpy())


@given(st.data())
def test_any_graph_in_any_layout(data: st.DataObject) -> None:
    grid = data.draw(cases.grids())
    recipe = data.draw(cases.recipes())
    q, k, _ = cases.inputs(grid.heads, grid.batch, grid.heads, grid.n, grid.m)
    sample = Sample(q, k, grid.layout)
    graph = cases.build(recipe, sample.layout.of(q, k))
    gold = GoldPairs(sample, WINDOWS, GLOBALS)
    _check(tally(GraphMasks(graph), gold), 0, graph, sample)


@pytest.mark.parametrize("scene", SCENES)
def test_counts_are_those_of_the_metrics(scene: str) -> None:
    sample = _sample(scene)
    finder = KMeans(4, 1, SHARED, CENTROIDS)
    gold = GoldPairs(sample, WINDOWS, GLOBALS)
    found = tally(GraphMasks(finder(sample.q, sample.k, sample.layout)), gold)
    for g, w in ((0, 0), (0, 2), (1, 3)):
        union = finder | Window(WINDOWS[w]) | GlobalTokens(GLOBALS[g])
        wanted = count(union(sample.q, sample.k, sample.layout), sample.gold)
        for each in fields(Counts):
            got = getattr(found, each.name)
            got = got[0, g, w] if got.ndim > 2 else got
            assert np.array_equal(got, getattr(wanted, each.name).numpy()), each.name
