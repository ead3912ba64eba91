"""The best keys of rows against sorting in Python: the kernels, with vector instructions and without, and torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Layout, compiled
from sparsefinder.core import chunks
from sparsefinder.finders import finder
from sparsefinder.finders.best import best_keys, lowest_of

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(width=32))


@pytest.fixture(params=["best", "plain", "torch"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.module is not None, "the kernels were not built"
    if request.param == "torch":
        monkeypatch.setattr(compiled, "module", None)
    else:
        monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)


def expected(scores: list[float], wanted: int) -> list[int]:
    """What is no number comes before all others, and nothing reaches it."""
    ordered = sorted(scores, key=lambda one: math.inf if math.isnan(one) else one)
    ordered.sort(key=math.isnan)
    limit = ordered[-wanted] if wanted else math.inf
    return [place for place, one in enumerate(scores) if one >= limit]


@pytest.mark.usefixtures("_way")
@given(st.lists(st.lists(NUMBERS, min_size=7, max_size=7), min_size=1, max_size=5), st.data())
def test_rows_of_any_numbers(rows: list[list[float]], data: st.DataObject) -> None:
    seen = [data.draw(st.integers(0, 7)) for _ in rows]
    wanted = [data.draw(st.integers(0, most)) for most in seen]
    scores = torch.tensor(rows)[None, None]
    counts, keys = best_keys(scores.clone(), column(seen), column(wanted))
    of_rows = [part.tolist() for part in keys.split(counts.flatten().tolist())]
    assert of_rows == [expected(row[:most], some) for row, most, some in zip(rows, seen, wanted, strict=True)]


def column(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers)[None, None, :, None]


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("spread", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("m", [1, 30, 1000])
def test_how_low_the_best_reach(m: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(m)
    # Enough rows for several threads, whose scores differ in their last bits or by orders of magnitude.
    scores = torch.randn(2, 3, 70, m, generator=generator).mul(spread)
    scores[0] = 1 + scores[0].clamp(-1, 1) * 1e-6
    wanted = torch.randint(0, m + 1, (2, 3, 70, 1), generator=generator)
    ordered = scores.sort(-1, descending=True).values
    low = torch.where(wanted > 0, ordered.gather(-1, (wanted - 1).clamp(min=0)), math.inf)
    assert torch.equal(lowest_of(scores, wanted), low)


@pytest.mark.parametrize("chunk", [50, 1 << 22])
@pytest.mark.parametrize("settings", [{"name": "sparq", "r": 4}, {"name": "clustered", "clusters": 4}])
def test_finders_choose_the_same_with_kernels_and_without(
    settings: dict[str, Any], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 2, 3, 40, 8, generator=generator).unbind()
    lengths = torch.tensor([40, 23])
    layout = Layout(causal=True, key_lengths=lengths, query_lengths=lengths)
    one = finder(**settings, share=torch.tensor([0.0, 0.3, 1.0]))
    mask = one(q, k, layout).dense()
    monkeypatch.setattr(compiled, "module", None)
    assert torch.equal(one(q, k, layout).dense(), mask)
    # None, a third of what a query may see, and all of it.
    seen = torch.arange(1, 41).where(torch.arange(40) < lengths[:, None], 0)
    assert torch.equal(mask.sum(-1).sum(-1), torch.stack([0 * lengths, (seen * 0.3).ceil().sum(-1), seen.sum(-1)], -1))
