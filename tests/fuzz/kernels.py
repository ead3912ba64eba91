"""What the kernels may be called with, right and wrong: a right answer or an InputError, and never anything else.

A property for hypothesis, which `test_fuzz.py` tries a few times and `under_asan.py` for as long as one likes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, InputError, attention
from sparsefinder.core.layout import Grid, Layout

from ..cases import build, layouts, recipes

NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, 1e30, -1e30, 1e-40, 0.0])
SIZES = st.sampled_from([0, 1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65])


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that mostly fit together."""
    batch, kv_heads, group = draw(st.integers(0, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    n, m, d, e = draw(SIZES), draw(SIZES), draw(SIZES), draw(SIZES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 20)))
    size = draw(st.sampled_from([0.0, 0.1, 1.0, 4.0, 1e3]))
    shapes = [[batch, kv_heads * group, n, d], [batch, kv_heads, m, d], [batch, kv_heads, m, e]]
    if draw(st.integers(0, 9)) == 0:
        # One of them does not fit.
        shapes[draw(st.integers(0, 2))][draw(st.integers(0, 3))] += 1
    tensors = [size * torch.randn(*shape, generator=generator) for shape in shapes]
    if draw(st.integers(0, 9)) == 0:
        chosen = tensors[draw(st.integers(0, 2))]
        if chosen.numel():
            chosen.view(-1)[draw(st.integers(0, chosen.numel() - 1))] = draw(NUMBERS)
    if draw(st.booleans()):
        tensors = [_strided(one, draw(st.integers(0, 2))) for one in tensors]
    layout = draw(layouts(batch, n, m)) if batch else Layout(draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0:
        layout = Layout(layout.causal, torch.full((max(1, batch),), m + draw(st.integers(1, 1 << 40))))
    alpha = draw(st.sampled_from([1.5, 1.5, 1.2, 2.0, 1.0001, 3.7, 1.0, 0.5, 0.0, -1.0, math.nan, math.inf]))
    recipe = draw(st.none() | recipes()) if min(batch, n, m) > 0 else None
    scale = draw(st.sampled_from([None, None, 0.125, 0.0, -1.0, math.nan]))
    return {"tensors": tensors, "recipe": recipe, "alpha": alpha, "layout": layout, "scale": scale}


def _strided(one: Tensor, how: int) -> Tensor:
    """The same numbers, laid out otherwise."""
    if how == 0:
        return one.transpose(1, 2).contiguous().transpose(1, 2)
    return one.mT.contiguous().mT if how == 1 else torch.cat([one, one], -1)[..., : one.shape[-1]]


def _graph(call: dict[str, Any]) -> Graph | None:
    """The same every time: what a recipe draws, it draws after this seed."""
    q, k, _ = call["tensors"]
    if call["recipe"] is None:
        return None
    torch.manual_seed(0)
    (batch, heads, n, _), m = q.shape, k.shape[2]
    return build(call["recipe"], Grid(batch, heads, n, m, call["layout"], torch.device("cpu")))


def result(backend: str, call: dict[str, Any]) -> Tensor | InputError:
    """What attention gives, and its gradients; or what it says is wrong."""
    tensors = [one.detach().clone().requires_grad_() for one in call["tensors"]]
    try:
        graph = _graph(call)
        out = attention(
            *tensors, graph, alpha=call["alpha"], layout=call["layout"], scale=call["scale"], backend=backend
        )
        out.sum().backward()
    except InputError as error:
        return error
    return out.detach()


@given(calls())
def check(call: dict[str, Any]) -> None:
    """The kernel says what the portable implementation says, to the accuracy that float32 has at such scores.

    Of scores above 100, and near α = 1, so little is left of it that only numbers are asked for. What a value that is
    not finite makes of its column is left open, where the key is not seen or has no weight: none times infinity.
    """
    found = result("native", call)
    if isinstance(found, InputError):
        return
    wanted = result("portable", call)
    assert isinstance(wanted, Tensor), f"the kernel takes what others refuse: {wanted}"
    assert found.shape == wanted.shape
    q, k, v = call["tensors"]
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if call["scale"] is None else call["scale"]
    largest = float(q.abs().max() * k.abs().max()) * abs(scale) * q.shape[-1] if q.numel() and k.numel() else 0.0
    assert bool(found.isfinite().all()) or not bool(v.isfinite().all())
    if largest < 100 and (call["alpha"] == 1 or call["alpha"] >= 1.2) and found.numel():
        whole = v.isfinite().all(2, keepdim=True).repeat_interleave(q.shape[1] // v.shape[1], 1)
        found, wanted = (one.where(whole, 0.0) for one in (found, wanted))
        most = float(v.where(v.isfinite(), 0.0).abs().max()) if v.numel() else 0.0
        assert torch.allclose(found, wanted, atol=1e-4 * (1 + largest) * (1 + most)), (found - wanted).abs().max()
