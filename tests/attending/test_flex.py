"""Softmax over graphs by FlexAttention, uncompiled. It takes gradients on GPUs alone: these are in test_gpu.py."""

from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention

from sparsefinder import Graph, InputError, Layout, attention
from sparsefinder.attending import flex
from sparsefinder.attending.api import checked, choose

from ..cases import GRAPHS, LAYOUTS, inputs

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles so small that there are several; and plain torch, as shape checks cannot be traced."""
    monkeypatch.setattr(torch.nn.attention.flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
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
