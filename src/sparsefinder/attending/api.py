"""The one public way to attention: checks the arguments, fills in defaults, chooses an implementation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Literal, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..core.entmax import check_alpha
from ..core.graph import Graph
from ..core.layout import Grid, Layout, check_vectors
from ..errors import InputError, check_type, is_number, wrong_type
from .call import Call
from .mask import causal, masked

__all__ = ["BACKENDS", "attention", "checked", "choose"]

# An implementation is a module with `run(call) -> out`, `weights(call) -> sparse tensor`, and `refusal(call)`, which
# says why it cannot take a call, or None. It is imported when it is first asked: what is for GPUs never is on a CPU.
BACKENDS = {
    "reference": ".reference",
    "portable": ".portable",
    "native": ".native",
    "adasplash": ".adasplash",
    "triton": ".triton",
    "flex": ".flex",
}
# "auto" takes the first that has no reason to refuse, of those for the kind of device, and "portable" elsewhere.
AUTOMATIC = {"cpu": ("native", "portable"), "cuda": ("adasplash", "triton", "flex", "portable")}

Query = Float[Tensor, "batch heads n d"]
Key = Float[Tensor, "batch kv_heads m d"]
Value = Float[Tensor, "batch kv_heads m e"]
Output = Float[Tensor, "batch heads n e"]


@overload
def attention(
    q: Query, k: Key, v: Value, graph: Graph | None = ..., *, alpha: float | Tensor = ..., layout: Layout = ...,
    scale: float | None = ..., exact: bool = ..., backend: str = ..., bias: Tensor | None = ..., dropout: float = ...,
    attn_mask: Tensor | None = ..., is_causal: bool = ...,
    return_weights: Literal[False] = ...,
) -> Output: ...  # fmt: skip
@overload
def attention(
    q: Query, k: Key, v: Value, graph: Graph | None = ..., *, alpha: float | Tensor = ..., layout: Layout = ...,
    scale: float | None = ..., exact: bool = ..., backend: str = ..., bias: Tensor | None = ..., dropout: float = ...,
    attn_mask: Tensor | None = ..., is_causal: bool = ...,
    return_weights: Literal[True],
) -> tuple[Output, Tensor]: ...  # fmt: skip
def attention(
    q: Query,
    k: Key,
    v: Value,
    graph: Graph | None = None,
    *,
    alpha: float | Float[Tensor, "..."] = 1.5,
    layout: Layout = Layout(),
    scale: float | None = None,
    exact: bool = False,
    backend: str = "auto",
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    attn_mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
    is_causal: bool = False,
    return_weights: bool = False,
) -> Output | tuple[Output, Tensor]:
    """Entmax attention, over the pairs of a graph or over all.

    >>> out = attention(q, k, v)                                # every pair that the layout lets be seen
    >>> out = attention(q, k, v, Window(11)(q, k))              # only the pairs of a graph
    >>> out = attention(q, k, v, attn_mask=mask)                # only what a mask shows, as torch's attention takes it
    >>> out, weights = attention(q, k, v, return_weights=True)  # weights: a sparse [batch, heads, n, m] tensor

    Any graph that holds the pairs entmax gives weight to gives the full result (Proposition 1 of the paper).

    q, k, v: [batch, heads, length, size]. k and v may have fewer heads than q, each then serving a group of them.
    graph: the pairs to compute, cut down to what `layout` lets be seen.
    alpha: 1 is softmax, 2 sparsemax; one number above 0, or one for each head, with a gradient. Up to 1 no weight is
        zero: "native" takes 1 over a graph alone, and nothing below. From 2 on the gradient jumps where a key gets
        weight: with every backend, a key whose score is on the threshold, up to rounding of the latter, is as if it
        were not there.
    layout: causality, padding and the position of the queries.
    scale: what scores are multiplied by; 1 / √d if None.
    exact: compute whatever it takes to get the result over all pairs, whatever the graph.
    backend: "reference" (one dense matrix, the oracle), "portable" (torch, any device, never n × m), "native" (C++,
        the fast one on a CPU), "adasplash" (all pairs on a GPU), "triton" (graphs on a GPU), "flex" (softmax
        over graphs on a GPU) or "auto".
    bias: added to the scores after scaling; broadcasts to [batch, heads, n, m].
    dropout: the share of weights dropped at random, as in training.
    attn_mask, is_causal: what they are to `torch.nn.functional.scaled_dot_product_attention`. A mask broadcasts to
        [batch, heads, n, m]; true is a pair that may be seen, and numbers are added to the scores, −∞ to hide a pair.
        They cut down what the graph and the layout leave, and may come together.
    return_weights: also return the weights (without dropout or gradient). A query with no pair gets zeros.
    """
    if not (type(exact) is type(is_causal) is type(return_weights) is bool):
        _check_flags(exact=exact, is_causal=is_causal, return_weights=return_weights)
    layout = causal(layout) if is_causal else layout
    call = checked(q, k, v, None if exact else graph, alpha, layout, scale, bias, dropout)
    if exact:
        if graph is not None:
            _check_graph(graph, call)
        call = replace(call, exact=True, first=None if graph is None else graph.within(layout))
    if attn_mask is not None:
        call = masked(call, _checked_mask(attn_mask, call))
    implementation = choose(backend, call)
    out: Tensor = implementation.run(call)
    out = out if out.dtype == q.dtype else out.to(q.dtype)
    if not return_weights:
        return out
    with torch.no_grad():
        return out, implementation.weights(call)


@cache
def _module(name: str) -> ModuleType:
    return import_module(BACKENDS[name], __package__)


def choose(backend: str, call: Call) -> ModuleType:
    """The implementation of this name; for "auto" the first that takes the call."""
    if backend == "auto":
        names = AUTOMATIC.get(call.q.device.type, ("portable",))
        return next(module for name in names if (module := _module(name)).refusal(call) is None)
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise InputError("backend", repr(backend), f"one of {', '.join(map(repr, ['auto', *BACKENDS]))}")
    refusal = _module(backend).refusal(call)
    if refusal is not None:
        raise InputError("backend", f"{backend!r}, which {refusal}", 'another one, or "auto"')
    return _module(backend)


def checked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    graph: Graph | None,
    alpha: float | Tensor,
    layout: Layout,
    scale: float | None,
    bias: Tensor | None,
    dropout: float,
) -> Call:
    """The arguments of `attention` as an implementation takes them, or an error that says what is wrong."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_vectors(name, tensor)
        if tensor.dtype != q.dtype or tensor.device != q.device:
            got = f"{tensor.dtype} on {tensor.device}"
            raise InputError(name, got, f"the type and device of q: {q.dtype} on {q.device}")
    batch, heads, n, d = q.shape
    _, kv_heads, m, _ = k.shape
    if k.shape[0] != batch or k.shape[3] != d:
        raise InputError("k", f"shape {tuple(k.shape)}", f"({batch}, heads, keys, {d}) to go with q {tuple(q.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise InputError(
            "v", f"shape {tuple(v.shape)}", f"({batch}, {kv_heads}, {m}, any) to go with k {tuple(k.shape)}"
        )
    if kv_heads == 0 or heads % kv_heads:
        raise InputError("k", f"{kv_heads} heads", f"a number of heads that divides the {heads} heads of q")
    if scale is not None and not (is_number(scale) and math.isfinite(scale)):
        raise InputError("scale", repr(scale), "a finite number, or None for 1 / √d")
    if not (is_number(dropout) and 0 <= dropout < 1):
        raise InputError("dropout", repr(dropout), "a share from 0 up to, but not including, 1")
    if bias is not None:
        bias = _checked_bias(bias, (batch, heads, n, m))
    call = Call(
        q, k, v, Grid(batch, heads, n, m, layout, q.device), None, _checked_alpha(alpha, heads),
        1 / math.sqrt(d or 1) if scale is None else float(scale), bias, float(dropout),
    )  # fmt: skip
    if graph is None:
        return call
    _check_graph(graph, call)
    return replace(call, graph=graph.within(layout))


def _check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        check_type(name, flag, bool, "True or False")


def _checked_alpha(alpha: float | Tensor, heads: int) -> float | Tensor:
    if not isinstance(alpha, Tensor):
        check_alpha(alpha)
        return float(alpha)
    if not alpha.is_floating_point():
        raise InputError("alpha", f"a tensor of {alpha.dtype}", "floating-point numbers")
    if alpha.numel() not in (1, heads):
        raise InputError(
            "alpha", f"a tensor of shape {tuple(alpha.shape)}", f"one value, or one for each of {heads} heads"
        )
    return alpha.reshape(-1).expand(heads)


def _checked_bias(bias: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    want = "a tensor of floating-point numbers to add to the scores; a mask of booleans is attn_mask=..."
    if not isinstance(bias, Tensor):
        raise wrong_type("bias", bias, want)
    if not bias.is_floating_point():
        raise InputError("bias", f"a tensor of {bias.dtype}", want)
    return _broadcasting("bias", bias, shape)


def _checked_mask(mask: Tensor, call: Call) -> Tensor:
    want = "a tensor of booleans, true where a pair may be seen, or of floating-point numbers to add to the scores"
    if not isinstance(mask, Tensor):
        raise wrong_type("attn_mask", mask, want)
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise InputError("attn_mask", f"a tensor of {mask.dtype}", want)
    if mask.device != call.q.device:
        raise InputError("attn_mask", f"a tensor on {mask.device}", f"one on the device of q, {call.q.device}")
    return _broadcasting("attn_mask", mask, call.grid.shape)


def _broadcasting(name: str, given: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """A tensor of four dimensions, each of the full size or 1."""
    right = given.ndim <= 4 and all(
        size in (1, whole) for size, whole in zip(reversed(given.shape), reversed(shape), strict=False)
    )
    if not right:
        raise InputError(name, f"a tensor of shape {tuple(given.shape)}", f"one that broadcasts to {shape}")
    return given.reshape((1,) * (4 - given.ndim) + given.shape)


def _check_graph(graph: Graph, call: Call) -> None:
    check_type("graph", graph, Graph, "a Graph, as finders return it: Window(11)(q, k); a mask is attn_mask=...")
    if graph.grid.shape != call.grid.shape:
        want = f"one for (batch, heads, queries, keys) = {call.grid.shape}"
        raise InputError("graph", f"a graph for {graph.grid.shape}", want)
