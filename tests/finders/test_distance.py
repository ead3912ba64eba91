"""Distances: bad ones are refused, and each head gets its own."""

import pytest
import torch

from sparsefinder import InputError
from sparsefinder.finders import Distance
from sparsefinder.finders.dials import Needs
from sparsefinder.learning.sample import Sample


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
