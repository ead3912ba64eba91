"""One budget for all heads: never more pairs than it says, and no way to spend as few finds more weight."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder import GlobalTokens, InputError, Layout, Sample
from sparsefinder.attending.gold import mass_missed
from sparsefinder.finders import Distance, Finder, Fitting, Full, Sketch, Window, dials
from sparsefinder.finders.budget import Curve, allot, spend
from sparsefinder.finders.dials import Needs
from sparsefinder.fitting import Wanted, Ways, choose, spent

# Of 4,096, so that sums of them are exact.
shares = st.integers(0, 4096).map(lambda count: count / 4096)


points = st.lists(st.tuples(shares, shares), min_size=1, max_size=5)


def _curve(some: list[tuple[float, float]]) -> Curve:
    """Of any settings: more of them never find less."""
    pairs, weight = (tuple(sorted(each)) for each in zip(*some, strict=True))
    return Curve(tuple(map(float, range(len(some)))), pairs, weight, weight)


@given(points)
def test_a_hull_bends_down_and_nothing_lies_above_it(some: list[tuple[float, float]]) -> None:
    curve = _curve(some)
    worth = [curve.worth(one, other) for one, other in itertools.pairwise(curve.hull)]
    assert worth == sorted(worth, reverse=True)
    ends = list(itertools.pairwise(curve.hull))
    for place in range(len(curve.settings)):
        for one, other in ends:
            if curve.pairs[one] < curve.pairs[place] <= curve.pairs[other] and one < place:
                line = curve.weight[one] + curve.worth(one, other) * (curve.pairs[place] - curve.pairs[one])
                assert curve.weight[place] <= line + 1e-6


@given(st.lists(points, min_size=1, max_size=3), shares)
def test_the_most_weight_is_found_but_for_one_step(several: list[list[tuple[float, float]]], budget: float) -> None:
    """Against all ways to spend it."""
    some = [_curve(each) for each in several]
    found = _sums(some, spend(some, budget))
    most = max(budget * len(some), math.fsum(curve.pairs[0] for curve in some)) + 1e-9
    assert found[0] <= most
    every = (_sums(some, places) for places in itertools.product(*(range(len(curve.settings)) for curve in some)))
    best = max(weight for pairs, weight in every if pairs <= most)
    steps = [curve.weight[other] - curve.weight[one] for curve in some for one, other in itertools.pairwise(curve.hull)]
    assert found[1] >= best - max(steps, default=0.0) - 1e-6


def _sums(some: Sequence[Curve], places: Sequence[int]) -> tuple[float, float]:
    """Pairs and weight."""
    pairs = math.fsum(curve.pairs[place] for curve, place in zip(some, places, strict=True))
    return pairs, math.fsum(curve.weight[place] for curve, place in zip(some, places, strict=True))


ways = st.lists(st.tuples(points, shares), min_size=2, max_size=3)


@given(st.lists(ways, min_size=1, max_size=3), shares, shares)
def test_no_one_way_to_find_for_all_heads_finds_more_at_as_low_a_cost(
    several: list[list[tuple[list[tuple[float, float]], float]]], budget: float, most: float
) -> None:
    count = min(map(len, several))
    heads = [[_curve(some) for some, _ in each[:count]] for each in several]
    costs = [[cost for _, cost in each[:count]] for each in several]
    most = max(most, math.fsum(map(min, costs)) / len(costs))
    chosen = allot(heads, costs, budget, most)
    pairs, weight = _sums(
        [curves[way] for curves, (way, _) in zip(heads, chosen, strict=True)], [at for _, at in chosen]
    )
    assert math.fsum(each[way] for each, (way, _) in zip(costs, chosen, strict=True)) / len(costs) <= most + 1e-9
    for way in range(count):
        alone = [curves[way] for curves in heads]
        if math.fsum(each[way] for each in costs) / len(costs) <= most:
            assert weight >= _sums(alone, spend(alone, budget))[1] - 1e-6
    # The first settings are taken in any case.
    first = math.fsum(max(curve.pairs[0] for curve in curves) for curves in heads)
    assert pairs <= max(budget * len(heads), first) + 1e-6


def test_dimensions_go_where_they_find_something() -> None:
    """Two heads of which one finds all with the cheap way, and the other nothing but with the dear one."""
    easy, hard = _curve([(0.0, 0.0), (0.1, 1.0)]), _curve([(0.0, 0.0), (0.1, 0.1)])
    heads, costs = [[easy, easy], [hard, easy]], [[0.1, 0.3], [0.1, 0.3]]
    assert allot(heads, costs, 0.1, 0.2) == [(0, 1), (1, 1)]
    assert allot(heads, costs, 0.1, 0.1) == [(0, 1), (0, 1)]
    # Nothing to find has no price.
    nothing = Curve((0.0, 1.0), (0.0, 0.1), (math.nan, math.nan), (math.nan, math.nan))
    assert allot([[nothing, nothing], [hard, easy]], costs, 0.1, 0.2)[1] == (1, 1)


def _sample(seed: int, layout: Layout) -> Sample:
    """Heads of which each is sharper than the one before."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 4, 60, 8, generator=generator) for _ in range(2))
    return Sample(q * torch.tensor([0.5, 1.0, 2.0, 6.0])[:, None, None], k, layout)


LAYOUTS = [Layout(), Layout(True), Layout(True, torch.tensor([60, 31]), query_lengths=torch.tensor([60, 31]))]


@pytest.mark.parametrize("extra", [None, Window(3) | GlobalTokens(1)], ids=["alone", "united"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["whole", "causal", "ragged"])
@pytest.mark.parametrize("one", [Sketch(8, slack=1.0), Distance(1.0)], ids=["sketch", "distance"])
def test_a_budget_finds_more_weight_than_the_same_sparsity_in_every_head(
    one: Finder, layout: Layout, extra: Finder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the sequences it was set on, of which all pairs are drawn many times."""
    monkeypatch.setattr(dials, "DRAWN", 1 << 16)
    sample, budget = _sample(0, layout), 0.25
    one = one.fit([sample], Fitting()) if isinstance(one, Sketch) else one
    missed, sparsity = [], []
    for wanted in (Wanted(budget=budget), Wanted(sparsity=1 - budget)):
        found = choose([one], [sample], wanted, extra)
        graph = (found.finder if extra is None else found.finder | extra)(sample.q, sample.k, layout)
        missed.append(float(mass_missed(graph, sample.q, sample.k).mean()))
        sparsity.append(float(graph.sparsity().mean()))
        assert torch.tensor(found.sparsity).mean() == pytest.approx(sparsity[-1], abs=0.01)
        recall = graph.recall(sample.gold).mean(0)
        torch.testing.assert_close(torch.tensor(found.recall).float(), recall.float(), atol=1e-6, rtol=0)
    assert sparsity[0] >= 1 - budget - 0.01
    assert missed[0] < missed[1]


def test_layers_share_a_budget() -> None:
    samples = {layer: _sample(layer, Layout()) for layer in (0, 1)}
    samples[1] = Sample(3 * samples[1].q, samples[1].k)
    fitted = {layer: Sketch(8, slack=1.0).fit([sample]) for layer, sample in samples.items()}
    together = spent({layer: Ways.of([one], [samples[layer]], None) for layer, one in fitted.items()}, 0.1)
    kept = [1 - sum(one.sparsity) / 4 for one in together.values()]
    assert sum(kept) / 2 <= 0.1
    assert kept[0] > 0.1 > kept[1]


def test_a_head_with_nothing_to_find_gets_no_more_than_it_must_have() -> None:
    layout = Layout(False, torch.zeros(1, dtype=torch.long))
    q = torch.randn(1, 2, 5, 8)
    needs = Needs(Window(1), [Sample(q, q, layout)])
    assert [curve.hull for curve in needs.curves()] == [(0,), (0,)]
    assert spend(needs.curves(), 1.0) == [0, 0]


def test_what_is_wanted_is_one_thing() -> None:
    with pytest.raises(InputError, match=r"recall, sparsity, budget: got 0.9, None, 0.1, want one of them"):
        Wanted(0.9, budget=0.1)
    with pytest.raises(InputError, match="budget: got 2, want a share of the pairs"):
        Wanted(budget=2)
    assert choose([Full()], [_sample(0, Layout())], Wanted(recall=0.5), turn=False).recall == [1.0] * 4
