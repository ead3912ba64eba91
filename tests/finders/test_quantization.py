"""Quantization: bins of equal size, whatever the values."""

import pytest
import torch

from sparsefinder import Graph, InputError, Layout
from sparsefinder.finders import Quantization, quantization
from sparsefinder.learning.sample import Sample

from .oracles import Head
from .oracles import quantization as oracle


@pytest.mark.parametrize("beta", [1, 3, 7, 200])
@pytest.mark.parametrize("kinds", [1, 3, 1000])
@pytest.mark.parametrize("few", [0, 100])
def test_equal_values_go_by_their_order(monkeypatch: pytest.MonkeyPatch, beta: int, kinds: int, few: int) -> None:
    monkeypatch.setattr(quantization, "FEW", few)
    q, k = (torch.randint(kinds, (2, 1, size, 2)).float() for size in (11, 17))
    lengths = torch.tensor([17, 6])
    graph = Quantization(beta)(q, k, Layout(key_lengths=lengths)).dense()
    for b in range(2):
        length = int(lengths[b])
        has = oracle(Head(q[b, 0].tolist(), k[b, 0, :length].tolist(), False, 0, 0), beta)
        expected = [[has(i, j) for j in range(length)] for i in range(11)]
        assert graph[b, 0, :, :length].tolist() == expected


def test_bins_of_training_quantiles_are_about_equal_in_size() -> None:
    samples = [Sample(torch.randn(2, 3, 100, 4), 3 * torch.randn(2, 3, 100, 4)) for _ in range(5)]
    fitted = Quantization(8, "quantiles").fit(samples)
    assert fitted.causal_safe
    q, k = torch.randn(1, 3, 400, 4), 3 * torch.randn(1, 3, 400, 4)
    # Each of four dimensions puts one pair in eight into the same bin.
    expected = (7 / 8) ** 4
    assert (fitted(q, k).sparsity() - expected).abs().max() < 0.03
    assert (Quantization(8)(q, k).sparsity() - expected).abs().max() < 0.03


def test_one_edge_without_the_other_is_refused() -> None:
    with pytest.raises(InputError, match="both, or none"):
        Quantization(2, query_edges=torch.zeros(1, 1, 1))
    with pytest.raises(InputError, match="beta: got 0"):
        Quantization(0)
    empty = Quantization(2)(torch.zeros(1, 1, 0, 2), torch.zeros(1, 1, 3, 2))
    assert torch.equal(empty.dense(), Graph.full(empty.grid).dense())
