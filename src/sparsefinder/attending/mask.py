"""`attn_mask` and `is_causal`, which torch's own attention takes, in terms of layout, graph and bias."""

from __future__ import annotations

import math
from dataclasses import replace

from jaxtyping import Bool
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid, Layout, check_layout
from ..errors import InputError
from .call import Call

__all__ = ["causal", "masked"]


def causal(layout: Layout) -> Layout:
    """The layout with `is_causal=True`: as in torch, the first query stands at the first key."""
    check_layout(layout)
    offset = layout.query_offset
    if bool((offset != 0).any()) if isinstance(offset, Tensor) else offset != 0:
        got = f"True, which counts from the first key, with layout.query_offset {offset}"
        raise InputError(
            "is_causal", got, "Layout(causal=True, query_offset=...) alone: it says where the queries stand"
        )
    return layout if layout.causal else replace(layout, causal=True)


def masked(call: Call, mask: Tensor) -> Call:
    """The call without the pairs that a mask hides, and with the numbers that it adds to the scores.

    mask: true where a pair may be seen, or numbers to add; four dimensions, each of the call's size or 1.
    """
    if mask.is_floating_point():
        hidden = mask == -math.inf
        # Most masks of numbers are 0 or −∞, which is a graph and nothing to add: what the fast kernel can take.
        added = mask.masked_fill(hidden, 0.0)
        if mask.requires_grad or bool(added.any()):
            call = replace(call, bias=added if call.bias is None else call.bias + added)
        mask = ~hidden
    if bool(mask.all()):
        return call
    allowed = _graph(mask, call.grid)
    # "Exact" is over all pairs that may be seen: those of the mask now, wherever `first` says to look first.
    graph = allowed if call.graph is None else call.graph & allowed
    return replace(call, graph=graph, exact=False, first=None)


def _graph(mask: Bool[Tensor, "#batch #heads #n #m"], grid: Grid) -> Graph:
    """Keys that all queries see, queries that see all keys, or pairs."""
    if mask.shape[2] == 1:
        return Graph.columns(mask[:, :, 0].expand(-1, -1, grid.m), grid)
    if mask.shape[3] == 1:
        return Graph.rows(mask[..., 0], grid)
    return Graph.of_dense(mask, grid)
