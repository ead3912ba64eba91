"""Tokens mapped, straight and bent: the kernels and torch against loops over tokens, and each token by itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sparsefinder import compiled
from sparsefinder.core.mapping import bent, mapped, widened

BATCH, HEADS = 2, 4


@pytest.fixture(params=["best", "plain"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.module is not None, "the kernels were not built"
    monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)


def drawn(length: int, d: int, units: int, r: int, groups: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens that lie far apart in memory, a layer of units, and maps of widened tokens."""
    generator = torch.Generator().manual_seed(length + d + units + r)
    tokens = torch.randn(BATCH, length, HEADS // groups, d + 3, generator=generator).transpose(1, 2)[..., :d]
    layer, maps = (
        torch.randn(HEADS, rows, columns, generator=generator) for rows, columns in ((d + 1, units), (d + units, r))
    )
    return tokens, layer, maps


def by_hand(token: list[float], layer: list[list[float]], maps: list[list[float]]) -> list[float]:
    """A token followed by what is positive of each unit, times the columns of the map."""
    said = [sum(x * w for x, w in zip([*token, 1.0], column, strict=True)) for column in zip(*layer, strict=True)]
    wide = [*token, *(max(each, 0.0) for each in said)]
    return [sum(x * w for x, w in zip(wide, column, strict=True)) for column in zip(*maps, strict=True)]


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("length", "d", "units", "r"), [(1, 1, 1, 1), (5, 8, 8, 8), (7, 5, 13, 3), (300, 3, 16, 9)])
def test_a_bent_map_against_sums_by_hand(length: int, d: int, units: int, r: int, groups: int) -> None:
    tokens, layer, maps = drawn(length, d, units, r, groups)
    found = bent(tokens, layer, maps)
    assert found.shape == (BATCH, HEADS, length, r)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in {0, length // 2, length - 1}:
                token = tokens[b, h // groups, i].tolist()
                expected = by_hand(token, layer[h].tolist(), maps[h].tolist())
                torch.testing.assert_close(found[b, h, i], torch.tensor(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_bent_map_is_a_straight_one_of_widened_tokens_to_the_bit(groups: int) -> None:
    tokens, layer, maps = drawn(37, 6, 24, 5, groups)
    assert torch.equal(bent(tokens, layer, maps), mapped(widened(tokens, layer), maps))


def test_a_token_is_mapped_as_if_it_were_alone() -> None:
    tokens, layer, maps = drawn(21, 6, 24, 5)
    whole = bent(tokens, layer, maps)
    for i in range(21):
        assert torch.equal(bent(tokens[:, :, i : i + 1], layer, maps)[:, :, 0], whole[:, :, i])
    assert torch.equal(bent(tokens[1:], layer, maps)[0], whole[1])


def test_no_tokens_and_numbers_that_are_none() -> None:
    tokens, layer, maps = drawn(4, 3, 8, 2)
    assert bent(tokens[:, :, :0], layer, maps).shape == (BATCH, HEADS, 0, 2)
    broken = tokens.clone()
    broken[0, 1, 2, 0] = torch.nan
    found = bent(broken, layer, maps)
    assert found[0, 1, 2].isnan().all()
    found[0, 1, 2], whole = 0.0, bent(tokens, layer, maps)
    whole[0, 1, 2] = 0.0
    assert torch.equal(found, whole)


def test_gradients_and_other_types_go_through_torch() -> None:
    tokens, layer, maps = drawn(5, 4, 6, 3)
    torch.testing.assert_close(
        bent(tokens.double(), layer.double(), maps.double()).float(), bent(tokens, layer, maps), atol=1e-4, rtol=1e-4
    )
    learned = layer.clone().requires_grad_()
    bent(tokens, learned, maps).sum().backward()
    assert learned.grad is not None
    assert float(learned.grad.abs().max()) > 0
