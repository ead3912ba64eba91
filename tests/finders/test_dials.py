"""Settings from a wanted recall: of long sequences some queries are looked at, and for these all holds exactly."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from sparsefinder import Layout, Sample, Window
from sparsefinder.finders import Finder, GlobalTokens, dials
from sparsefinder.finders.dials import Needs
from sparsefinder.finders.sketch import Sketch

N, HEADS, RECALL = 150, 2, 0.9


def _sample(layout: Layout = Layout(True), n: int = N) -> Sample:
    generator = torch.Generator().manual_seed(5)
    q, k = (2 * torch.randn(2, HEADS, n, 8, generator=generator) for _ in range(2))
    return Sample(q, k, layout)


LAYOUTS = {
    "causal": Layout(True),
    "whole": Layout(),
    "ragged": Layout(True, torch.tensor([N, 90]), query_lengths=torch.tensor([N, 90])),
}
FINDERS: dict[str, Finder] = {
    "window": Window(1),
    "slack": Sketch(r=4, slack=1.0).fit([_sample()]),
    "share": Sketch(r=4, share=0.5).fit([_sample()]),
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[slice]:
    """As if sequences of more than 48 queries were long; the runs of queries that were looked at."""
    monkeypatch.setattr(dials, "QUERIES", 48)
    monkeypatch.setattr(dials, "RUN", 8)
    found: list[slice] = []
    original = dials._runs

    def kept(n: int, generator: torch.Generator) -> list[slice]:
        found[:] = original(n, generator)
        return found

    monkeypatch.setattr(dials, "_runs", kept)
    return found


@pytest.mark.parametrize("extra", [None, GlobalTokens(1)], ids=["alone", "united"])
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("name", list(FINDERS))
def test_the_recall_of_what_is_looked_at_is_as_wanted(
    name: str, layout: str, extra: Finder | None, runs: list[slice]
) -> None:
    """It is what the graph of the whole sequence has on these queries, and one gold pair less would not be enough."""
    sample, finder = _sample(LAYOUTS[layout]), FINDERS[name]
    needs = Needs(finder, [sample], extra)
    settings = needs.settings(recall=RECALL)
    inside = torch.zeros(N, dtype=torch.bool)
    for run in runs:
        inside[run] = True
    assert 0 < int(inside.sum()) <= 48
    gold = sample.gold.dense() & inside[:, None]

    def recall(some: Tensor) -> Tensor:
        turned = finder.turned(some)
        graph = (turned if extra is None else turned | extra)(sample.q, sample.k, sample.layout)
        hits, every = (gold & graph.dense()).sum((2, 3)).double(), gold.sum((2, 3)).double()
        return (hits / every).nanmean(0)

    torch.testing.assert_close(needs.recall(settings).double(), recall(settings), atol=1e-6, rtol=0)
    assert bool((recall(settings) >= RECALL - 1e-6).all())
    if name == "slack":
        assert bool((recall(settings * (1 - 1e-4)) < RECALL).all())


def test_runs_are_spread_and_every_query_is_as_likely() -> None:
    n, counts = 4 * dials.QUERIES + 37, torch.zeros(4 * dials.QUERIES + 37)
    for seed in range(200):
        runs = dials._runs(n, torch.Generator().manual_seed(seed))
        assert all(one.stop <= two.start for one, two in pairwise(runs))
        assert len(runs) == dials.QUERIES // dials.RUN
        assert max(two.start - one.start for one, two in pairwise(runs)) <= 2 * n // len(runs)
        for run in runs:
            counts[run] += 1
    assert float(counts.min()) / 200 > 0.12
    assert float(counts.max()) / 200 < 0.38
    assert dials._runs(dials.QUERIES, torch.Generator()) == [slice(0, dials.QUERIES)]


def test_what_is_looked_at_stands_for_all(runs: list[slice]) -> None:
    sample = _sample(n=1000)
    some = Needs(FINDERS["slack"], [sample]).settings(recall=RECALL)
    assert len(runs) == 6
    graph = FINDERS["slack"].turned(some)(sample.q, sample.k, sample.layout)
    assert bool((graph.recall(sample.gold).mean(0) - RECALL).abs().max() < 0.05)


def test_some_queries_of_a_sample_have_the_gold_pairs_that_they_have_among_all() -> None:
    for layout in (*LAYOUTS.values(), replace(Layout(True), query_offset=torch.tensor([3, 0]))):
        sample = _sample(layout)
        assert torch.equal(sample.part(slice(40, 97)).gold.dense(), sample.gold.dense()[:, :, 40:97])
        assert sample.part(slice(0, N)) is sample
