"""The index of the distance finder finds exactly what comparing all pairs does."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsefinder import InputError, Layout
from sparsefinder.finders import Distance, distance
from sparsefinder.finders.dials import Needs
from sparsefinder.learning.sample import Sample


@given(
    seed=st.integers(0, 1000),
    r=st.integers(1, 6),
    t=st.sampled_from([0.0, 1e-3, 0.1, 0.5, 1.0, 5.0]),
    causal=st.booleans(),
    spread=st.sampled_from([0.01, 1.0, 1000.0]),
)
def test_cells_find_what_comparing_all_finds(seed: int, r: int, t: float, causal: bool, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k = (spread * torch.randn(2, 3, size, r, generator=generator) for size in (40, 60))
    # Some keys lie exactly at the distance, and on the edges of cells.
    k[:, :, :20] = q[:, :, :20]
    k[:, :, 20:40, 0] = q[:, :, :20, 0] + t
    layout = Layout(causal, key_lengths=torch.tensor([60, 33]))
    finder = Distance(t)
    with pytest.MonkeyPatch.context() as patch:
        everything = finder(q, k, layout).dense()
        patch.setattr(distance, "SMALL", 0)
        patch.setattr(distance, "LISTED", 0.0)
        assert torch.equal(finder(q, k, layout).dense(), everything)


def test_large_inputs_go_through_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = torch.randn(1, 2, 1200, 4), torch.randn(1, 2, 1200, 4)
    with monkeypatch.context() as patch:
        patch.setattr(distance, "_near_by_all", None)
        graph = Distance(0.3)(q, k)
    assert torch.equal(graph.dense(), (q[:, :, :, None] - k[:, :, None]).square().sum(-1) <= 0.3**2)


def test_a_negative_distance_is_refused() -> None:
    with pytest.raises(InputError, match="t: got -1"):
        Distance(-1.0)


def test_each_head_gets_its_share_whatever_its_size() -> None:
    sizes = torch.tensor([1.0, 10.0, 0.1])[:, None, None]
    samples = [Sample(sizes * torch.randn(4, 3, 50, 5), sizes * torch.randn(4, 3, 50, 5)) for _ in range(3)]
    fitted = Distance(0.0).turned(Needs(Distance(0.0), samples).settings(sparsity=0.9))
    q, k = sizes * torch.randn(4, 3, 80, 5), sizes * torch.randn(4, 3, 80, 5)
    assert (fitted(q, k).sparsity().mean(0) - 0.9).abs().max() < 0.03
    assert Distance(1.0)(q, k).sparsity().mean(0).diff().abs().max() > 0.5
