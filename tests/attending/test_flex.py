"""Softmax over graphs by FlexAttention, uncompiled. It takes gradients on GPUs alone: these are in test_gpu.py."""

from typing import Any

import pytest
import torch

from sparsefinder import Graph, InputError, Layout, attention
from sparsefinder.attending import flex
from sparsefinder.attending.api import checked, choose

from ..cases import GRAPHS, LAYOUTS, inputs

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles so small that there are several."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(flex, "SIZE", 8)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_flex_is_softmax_over_the_graph(kind: str, layout: Layout) -> None:
    q, k, v = (x.float() for x in inputs())
    graph = GRAPHS[kind](layout.of(q, k))
    more: dict[str, Any] = {"alpha": 1.0, "layout": layout, "scale": 0.3, "return_weights": True}
    wanted = attention(q.double(), k.double(), v.double(), graph, backend="reference", **more)
    for one, other in zip(attention(q, k, v, graph, backend="flex", **more), wanted, strict=True):
        torch.testing.assert_close(
            one.to_dense().double() if one.is_sparse else one.double(),
            other.to_dense() if other.is_sparse else other, rtol=1e-5, atol=1e-5,
        )  # fmt: skip


@pytest.mark.parametrize("chunk", [None, 1])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_tiles_are_listed_that_have_a_pair_and_full_ones_apart(
    kind: str, layout: Layout, chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is visited on a GPU, by the definition; also where queries are written out a few at a time."""
    if chunk is not None:
        monkeypatch.setattr(flex, "chunks", lambda n, each: [slice(0, chunk)])
    q, k, _ = inputs()
    graph = GRAPHS[kind](layout.of(q, k))
    mask, asking = flex._block_mask(graph)
    dense = graph.dense()
    rows, columns = -(-dense.shape[2] // 8), -(-dense.shape[3] // 8)
    whole = torch.nn.functional.pad(dense, (0, columns * 8 - dense.shape[3], 0, rows * 8 - dense.shape[2]))
    tiles = whole.view(*dense.shape[:2], rows, 8, columns, 8)
    for (numbers, places), wanted in (
        ((mask.full_kv_num_blocks, mask.full_kv_indices), tiles.all(5).all(3)),
        ((mask.kv_num_blocks, mask.kv_indices), tiles.any(5).any(3) & ~tiles.all(5).all(3)),
    ):
        listed = torch.zeros_like(wanted)
        for b, h, r in torch.cartesian_prod(*(torch.arange(size) for size in wanted.shape[:3])).tolist():
            listed[b, h, r, places[b, h, r, : numbers[b, h, r]].long()] = True
        assert torch.equal(listed, wanted)
    assert torch.equal(asking, dense.any(-1))


def test_what_it_refuses() -> None:
    q, k, v = (x.float() for x in inputs())
    graph = Graph.full(Layout().of(q, k))
    for changes, message in (
        ({"alpha": 1.5}, "softmax, alpha = 1, alone"),
        ({"graph": None}, "is for graphs"),
        ({"dropout": 0.1}, "has no dropout"),
        ({"bias": torch.zeros(1)}, "takes no bias"),
    ):
        given: dict[str, Any] = {"graph": graph, "alpha": 1.0, **changes}
        with pytest.raises(InputError, match=message):
            attention(q, k, v, backend="flex", **given)
    with pytest.raises(InputError, match=r"not in torch\.float64"):
        attention(q.double(), k.double(), v.double(), graph, alpha=1.0, backend="flex")


def test_without_a_gpu_nobody_chooses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    q, k, v = (x.float() for x in inputs())
    call = checked(q, k, v, Graph.full(Layout().of(q, k)), 1.0, Layout(), None, None, 0.0)
    assert flex.refusal(call) == "runs on a GPU only, not on cpu"
    assert choose("auto", call).__name__.endswith("native")
