"""`attn_mask` and `is_causal`: what torch's attention makes of them, for every α and implementation."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from sparsefinder import Graph, InputError, Layout, attention

from ..cases import BACKENDS, GRAPHS, LAYOUTS, B, H, M, N, chance, inputs, tensors

# The shapes that a mask may have: pairs, of one head or each; keys, queries, all the same.
SHAPES = [(N, M), (M,), (B, 1, 1, M), (B, H, N, M), (1, H, N, 1), (1, 1), (B, 1, N, M)]


def softmax(q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:
    """Torch's own attention. Queries that see nothing get zeros here, as they do in ours."""
    return torch.nan_to_num(scaled_dot_product_attention(q, k, v, enable_gqa=True, **more))


def booleans(shape: tuple[int, ...]) -> Tensor:
    return chance(*shape, share=0.6)


def added(mask: Tensor, low: float = -math.inf) -> Tensor:
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, low)


@pytest.mark.parametrize("backend", ["reference", "portable"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_is_torchs_own(shape: tuple[int, ...], backend: str) -> None:
    q, k, v = inputs()
    mask = booleans(shape)
    for one in (mask, added(mask), added(mask) + tensors(*shape), tensors(*shape)):
        wanted = softmax(q, k, v, attn_mask=torch.atleast_2d(one))
        torch.testing.assert_close(attention(q, k, v, alpha=1.0, attn_mask=one, backend=backend), wanted)


@pytest.mark.parametrize(("n", "m"), [(N, N), (N, M), (M, N), (1, M)])
def test_is_causal_is_torchs_own(n: int, m: int) -> None:
    q, k, v = inputs(n=n, m=m)
    wanted = softmax(q, k, v, is_causal=True)
    torch.testing.assert_close(attention(q, k, v, alpha=1.0, is_causal=True), wanted)
    # Ours take a mask besides, which torch refuses.
    mask = booleans((n, m))
    both = softmax(q, k, v, attn_mask=mask & torch.ones(n, m, dtype=torch.bool).tril())
    torch.testing.assert_close(attention(q, k, v, alpha=1.0, is_causal=True, attn_mask=mask), both)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["none", "full", "nothing", "mixture", "band"])
def test_a_mask_cuts_down_graph_and_layout(kind: str, layout: str, backend: str) -> None:
    """α = 1.5 over the pairs that graph, layout and mask have in common, whichever way the mask is given."""
    q, k, v = (x.float() for x in inputs())
    grid = LAYOUTS[layout].of(q, k)
    graph = None if kind == "none" else GRAPHS[kind](grid)
    for shape in SHAPES:
        mask = booleans(shape)
        both = (Graph.full(grid) if graph is None else graph).dense() & mask
        wanted = attention(q, k, v, Graph.of_dense(both, Layout().of(q, k)), backend="reference")
        for one in (mask, added(mask).float()):
            got = attention(q, k, v, graph, layout=LAYOUTS[layout], attn_mask=one, backend=backend)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_exact_is_over_what_the_mask_shows(backend: str) -> None:
    q, k, v = (x.float() for x in inputs())
    mask, poor = booleans((N, M)), Graph.band(0, 0, Layout().of(q, k))
    got = attention(q, k, v, poor, exact=True, attn_mask=mask, backend=backend)
    torch.testing.assert_close(got, attention(q, k, v, attn_mask=mask, backend="reference"), rtol=1e-4, atol=1e-5)


def test_a_low_number_hides_like_infinity() -> None:
    """Many masks have the lowest number of their type instead of −∞."""
    q, k, v = (x.float() for x in inputs())
    mask = booleans((N, M))
    mask[:, 0] = True
    low = added(mask, torch.finfo(torch.float32).min).float()
    torch.testing.assert_close(attention(q, k, v, attn_mask=low), attention(q, k, v, attn_mask=mask))
    torch.testing.assert_close(attention(q, k, v, alpha=1.0, attn_mask=low), softmax(q, k, v, attn_mask=low))


def test_a_mask_may_be_learned_and_a_bias_may_come_with_it() -> None:
    q, k, v = inputs()
    mask, bias = torch.zeros(H, N, M, dtype=torch.float64, requires_grad=True), tensors(1, H, 1, M)
    out = attention(q, k, v, attn_mask=mask, bias=bias)
    torch.testing.assert_close(out, attention(q, k, v, bias=bias + mask))
    (grad,) = torch.autograd.grad(out.square().sum(), mask)
    assert grad.abs().sum() > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_and_weights_see_the_mask(backend: str) -> None:
    q, k, v = (x.float().requires_grad_() for x in inputs())
    mask = booleans((B, 1, N, M))
    out, weights = attention(q, k, v, attn_mask=mask, return_weights=True, backend=backend)
    assert not (weights.to_dense() > 0)[~mask.expand(B, H, N, M)].any()
    wanted = attention(q, k, v, Graph.of_dense(mask, Layout().of(q, k)), backend="reference")
    grads = (torch.autograd.grad(each.square().sum(), (q, k, v)) for each in (out, wanted))
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_masks_of_nothing() -> None:
    q, k, v = inputs(n=0)
    assert attention(q, k, v, attn_mask=torch.ones(0, M, dtype=torch.bool)).shape == (B, H, 0, 5)
    q, k, v = inputs()
    assert (attention(q, k, v, attn_mask=torch.zeros(N, M, dtype=torch.bool)) == 0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"attn_mask": torch.ones(N, M).long()},
            "attn_mask: got a tensor of torch.int64, want a tensor of booleans, true where",
        ),
        ({"attn_mask": torch.ones(N, N)}, r"attn_mask: got a tensor of shape \(17, 17\), want one that broadcasts"),
        ({"attn_mask": torch.ones(N, M, device="meta")}, "attn_mask: got a tensor on meta, want one on the device of"),
        ({"graph": torch.ones(N, M).bool()}, "graph: got a Tensor, want a Graph, .* attn_mask="),
        ({"is_causal": True, "layout": Layout(True, query_offset=3)}, r"is_causal: got True, .*query_offset 3, want"),
        ({"is_causal": True, "layout": LAYOUTS["decoding"]}, "is_causal: got True, .* want Layout"),
    ],
)
def test_errors_name_the_argument(change: dict[str, Any], words: str) -> None:
    q, k, v = inputs()
    with pytest.raises(InputError, match=words):
        attention(q, k, v, **change)
