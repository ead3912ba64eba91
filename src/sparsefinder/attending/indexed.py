"""Attention over what an index says of its keys: a decoding step that never reads the others, if the kernels can."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import capsule
from ..core.index import KeyIndex
from ..core.layout import Layout
from ..errors import InputError
from .api import attention
from .native import counted_pairs

__all__ = ["asked", "asks_natively", "indexed_attention"]


def indexed_attention(
    index: KeyIndex,
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    v: Float[Tensor, "batch kv_heads m e"],
    *,
    alpha: float | Float[Tensor, " heads"] = 1.5,
    layout: Layout = Layout(),
    scale: float | None = None,
) -> Float[Tensor, "batch heads n e"]:
    """Entmax attention over the pairs that an index says: what `attention(q, k, v, index.graph(q, layout))` gives.

    Of an exact index, that is full attention.

    >>> index = sketch.index(k)
    >>> indexed_attention(index, q, k, v, layout=Layout(True, query_offset=k.shape[2] - 1))
    """
    if index.length != k.shape[2]:
        raise InputError("index", f"one of {index.length} keys", f"one of the {k.shape[2]} keys of k")
    if not asks_natively(index, q, k, v, alpha, scale):
        return attention(q, k, v, index.graph(q, layout), alpha=alpha, layout=layout, scale=scale)
    highs = layout.of(q, k).degrees()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return asked(index, q, k, v, torch.zeros_like(highs), highs.contiguous(), alpha, scale)


def asks_natively(
    index: KeyIndex, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, scale: float | None = None
) -> bool:
    """Whether the kernels can ask the index for these queries."""
    if not (index.natively(k) and index.natively(q)) or v.dtype != torch.float32 or v.stride(-1) != 1:
        return False
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in (q, k, v, alpha)):
        return False
    lanes: int = compiled.module.LANES  # type: ignore[union-attr]
    if q.shape[-1] % lanes or v.shape[-1] % lanes:
        return False
    if index.exact and scale is not None and scale <= 0:
        return False
    return bool((alpha >= 1).all()) if isinstance(alpha, Tensor) else alpha >= 1


def asked(
    index: KeyIndex,
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    v: Float[Tensor, "batch kv_heads m e"],
    lows: Int[Tensor, "batch n"],
    highs: Int[Tensor, "batch n"],
    alpha: float | Tensor,
    scale: float,
) -> Float[Tensor, "batch heads n e"]:
    """The same where query i of a sequence sees the keys from lows[i] up to, but not including, highs[i]."""
    batch, heads, n, _ = q.shape
    out = torch.empty((batch, heads, n, v.shape[-1]))
    if compiled.module.ask_index(  # type: ignore[union-attr]
        index.held, capsule(index.panels), index.capacity, capsule(q.detach()), capsule(k.detach()),
        capsule(v.detach()), capsule(out), capsule(lows), capsule(highs),
        alpha.tolist() if isinstance(alpha, Tensor) else [alpha] * heads, scale,
        None if index.slack is None else capsule(index.slack), None if index.share is None else capsule(index.share),
        torch.get_num_threads(), compiled.plain(), counted_pairs(batch, heads),
    ):  # fmt: skip
        raise InputError("scores", "NaN or infinity among them", "queries and keys whose products are finite")
    return out
