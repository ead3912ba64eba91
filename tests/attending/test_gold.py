"""Gold graphs by mass: of each row the fewest keys with a share of its weight, for softmax models above all."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sparsefinder import InputError, Layout, Sample, Sparsefinder, Traces, TraceWriter, attention, gold_graph
from sparsefinder.attending.gold import MASS, mass_missed
from sparsefinder.finders import Oracle

from ..cases import GRAPHS, LAYOUTS, H, inputs
from ..synthetic import grouped


def weights_of(q: Tensor, k: Tensor, alpha: float, layout: Layout) -> Tensor:
    return attention(q, k, k, alpha=alpha, layout=layout, return_weights=True, backend="reference")[1].to_dense()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("mass", [0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_no_fewer_keys_have_the_mass(alpha: float, mass: float, layout: Layout) -> None:
    """A loop over rows that takes one key after the other, the heaviest first."""
    q, k, _ = inputs()
    found = gold_graph(q, k, alpha, layout, mass=mass).dense()
    for row, taken in zip(weights_of(q, k, alpha, layout).flatten(0, 2).tolist(), found.flatten(0, 2), strict=True):
        order = sorted(range(len(row)), key=lambda key: (-row[key], key))
        wanted, has = set(), 0.0
        for key in order:
            if row[key] > 0 and has < mass * sum(row) * (1 - 1e-6):
                wanted.add(key)
                has += row[key]
        assert set(taken.nonzero().flatten().tolist()) == wanted


def test_without_a_mass_it_is_all_weight_or_most_of_that_of_softmax() -> None:
    q, k, _ = inputs()
    soft, sparse = (gold_graph(q, k, alpha).dense() for alpha in (1.0, 1.5))
    assert torch.equal(soft, gold_graph(q, k, 1.0, mass=MASS).dense())
    assert torch.equal(sparse, weights_of(q, k, 1.5, Layout()) > 0)
    both = gold_graph(q, k, torch.tensor([1.0, 1.5] * (H // 2)).to(q)).dense()
    assert torch.equal(both[:, ::2], soft[:, ::2])
    assert torch.equal(both[:, 1::2], sparse[:, 1::2])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_what_a_graph_misses_is_the_weight_outside_of_it(alpha: float, layout: Layout, graph: str) -> None:
    q, k, _ = inputs()
    pairs = GRAPHS[graph](layout.of(q, k))
    weights = weights_of(q, k, alpha, layout)
    wanted = (weights * ~pairs.dense()).sum((-1, -2)) / (weights.sum(-1) > 0).sum(-1)
    torch.testing.assert_close(mass_missed(pairs, q, k, alpha), wanted, equal_nan=True)


def test_a_mass_goes_from_traces_to_what_is_fitted(tmp_path: Path) -> None:
    """Finders of softmax models are fitted as those of entmax models are: to a recall of the gold pairs."""
    golds = {}
    for mass in (None, 0.5, 0.99):
        path = tmp_path / str(mass)
        with TraceWriter(path, dtype="float32", mass=mass) as writer:
            for seed in range(6):
                sample = grouped(2, seed=seed, noise=0.5)
                writer.add("encoder", 0, sample.q, sample.k, sample.layout, sample.scale, 1.0)
        traces = Traces.open(path)
        (one,) = traces.samples("encoder", 0, 12)
        assert isinstance(one, Sample)
        golds[mass] = one.gold.dense()
        assert torch.equal(golds[mass], gold_graph(one.q, one.k, 1.0, one.layout, one.scale, mass=mass).dense())
        oracle = Oracle().at(traces.place("encoder", 0))
        assert torch.equal(oracle(one.q, one.k, one.layout).dense(), golds[mass])
        fitted = Sparsefinder.fit(traces, "sketch", recall=0.9, progress=False)
        found = fitted["encoder", 0](one.q, one.k, one.layout)
        assert found.recall(one.gold).mean() > 0.85
    assert golds[0.5].sum() < golds[None].sum() < golds[0.99].sum()


@pytest.mark.parametrize("mass", [0, 1.5, "most", True])
def test_what_is_no_share_is_refused(mass: object, tmp_path: Path) -> None:
    q, k, _ = inputs()
    for call in (lambda: gold_graph(q, k, mass=mass), lambda: TraceWriter(tmp_path / "traces", mass=mass)):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a share of the weight"):
            call()
