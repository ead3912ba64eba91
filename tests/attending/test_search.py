"""A random search for calls on which implementations differ: shapes, layouts, graphs, α, types, ties, strides.

A few hundred each time, always the same; `SPARSEFINDER_EXAMPLES=10000 pytest tests/attending/test_search.py` for more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, Layout, attention
from sparsefinder.attending import native, portable
from sparsefinder.attending.api import checked

from ..cases import Recipe, build, layouts, recipes

EXAMPLES = os.environ.get("SPARSEFINDER_EXAMPLES")
ALPHAS = (0.5, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
STRIDES = ("plain", "by token", "every other", "from the end", "one for all")
# How far apart results and gradients may be: rounding of what goes in and comes out. From α = 2 on, slopes are large.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Blocks by themselves besides what they are in: what went wrong once did where they are larger than all queries.
BLOCKS = st.tuples(st.just("blocks"), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([2, 3, 7, 16, 64]))


@dataclass(frozen=True)
class Drawn:
    """A call: what its tensors are made with, and the rest of its arguments."""

    batch: int
    key_heads: int
    shared: int
    n: int
    m: int
    d: int
    e: int
    layout: Layout
    recipe: Recipe | None
    alphas: tuple[float, ...]
    dtype: torch.dtype
    step: float
    strides: tuple[str, ...]
    way: str
    exact: bool
    bias: bool
    seed: int


@st.composite
def calls(draw: st.DrawFn) -> Drawn:
    batch, key_heads, shared = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    lengths = st.integers(0, 40) | st.sampled_from([64, 65, 130])
    n, m = draw(lengths), draw(lengths)
    one_alpha, strides = st.sampled_from(ALPHAS), st.sampled_from(STRIDES)
    heads = key_heads * shared
    return Drawn(
        batch, key_heads, shared, n, m, draw(st.integers(1, 17)), draw(st.integers(1, 17)),
        draw(layouts(batch, n, m)), draw(st.none() | recipes() | BLOCKS),
        tuple(draw(st.lists(one_alpha, min_size=heads, max_size=heads) | one_alpha.map(lambda one: [one]))),
        draw(st.sampled_from(list(TOLERANCES))), draw(st.sampled_from([1 / 8, 1 / 2, 1.0])),
        tuple(draw(strides) for _ in range(3)),
        draw(st.sampled_from(["auto", "gathered", "gathered", "dense"])), draw(st.booleans()), draw(st.booleans()),
        draw(st.integers(0, 1 << 30)),
    )  # fmt: skip


def strided(x: Tensor, kind: str) -> Tensor:
    """The same numbers, or those of one head for all, lying in memory in another way."""
    if kind == "by token":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == "every other":
        return torch.stack([x, -x], -1).flatten(3)[..., ::2]
    if kind == "from the end":
        return torch.cat([-x, x], 2)[:, :, x.shape[2] :]
    return x[:, :1].expand_as(x) if kind == "one for all" else x


def made(drawn: Drawn) -> tuple[list[Tensor], Graph | None, Tensor | None]:
    """Queries and keys are small multiples of a step: scores are exact in every type, and many are equal."""
    torch.manual_seed(drawn.seed)
    heads = drawn.key_heads * drawn.shared
    sizes = (heads, drawn.n, drawn.d), (drawn.key_heads, drawn.m, drawn.d)
    q, k = (torch.randint(-2, 3, (drawn.batch, *size)) * drawn.step for size in sizes)
    v = torch.randn(drawn.batch, drawn.key_heads, drawn.m, drawn.e)
    tensors = [strided(x.to(drawn.dtype), kind) for x, kind in zip((q, k, v), drawn.strides, strict=True)]
    graph = None if drawn.recipe is None else build(drawn.recipe, drawn.layout.of(q, k))
    bias = torch.randint(-2, 3, (1, heads, drawn.n, drawn.m)) / 2 if drawn.bias else None
    return tensors, graph, bias


def outcome(drawn: Drawn, backend: str, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Output, weights, and gradients of queries, keys, values and α."""
    tensors, graph, bias = made(drawn)
    q, k, v = leaves = [x.detach().to(dtype or x.dtype).requires_grad_() for x in tensors]
    more: dict[str, Any] = {
        "layout": drawn.layout,
        "scale": 0.5,
        "exact": drawn.exact,
        "bias": bias,
        "backend": backend,
    }
    alpha: float | Tensor = drawn.alphas[0]
    if len(drawn.alphas) > 1:
        alpha = torch.tensor(drawn.alphas, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
        leaves.append(alpha.requires_grad_())
    out, weights = attention(q, k, v, graph, alpha=alpha, return_weights=True, **more)
    upstream = torch.linspace(-1, 1, out.numel()).view_as(out).to(drawn.dtype).to(out.dtype)
    grads = torch.autograd.grad(out, leaves, upstream, allow_unused=True, materialize_grads=True)
    return [x.detach().double() for x in (out, weights.to_dense(), *grads)]


def ways(drawn: Drawn, backend: str) -> list[Tensor]:
    """`portable` goes one of its two ways, whatever it thinks is cheaper."""
    if backend != "portable" or drawn.way == "auto" or not drawn.n * drawn.m:
        return outcome(drawn, backend)
    with patch.object(portable, "_gathering_pays", lambda call: drawn.way == "gathered" and call.graph is not None):
        return outcome(drawn, backend)


def refused(drawn: Drawn) -> bool:
    (q, k, v), graph, bias = made(drawn)
    graph = None if drawn.exact else graph
    alpha = drawn.alphas[0] if len(drawn.alphas) == 1 else torch.tensor(drawn.alphas)
    return native.refusal(checked(q, k, v, graph, alpha, drawn.layout, 0.5, bias, 0.0)) is not None


@pytest.mark.parametrize("backend", ["portable", "native"])
@settings(max_examples=int(EXAMPLES or 300), derandomize=EXAMPLES is None)
@given(calls())
def test_no_call_is_found_on_which_implementations_differ(backend: str, drawn: Drawn) -> None:
    if backend == "native" and refused(drawn):
        return
    names = ("output", "weights", "dq", "dk", "dv", "dα")
    wanted = outcome(drawn, "reference", torch.float64)
    for name, got, want in zip(names, ways(drawn, backend), wanted, strict=False):
        # Gradients of queries and keys are sums of slopes; what is rounded is as large as the largest of them.
        tolerance = TOLERANCES[drawn.dtype] * max(1.0, float(want.abs().max()) if want.numel() else 1.0)
        torch.testing.assert_close(got, want, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")
