"""The gold graph: the pairs that entmax attention gives weight to. Sec. 4 of the paper."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Layout
from .api import checked, choose

__all__ = ["gold_graph"]


def gold_graph(
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    alpha: float | Float[Tensor, " heads"] = 1.5,
    layout: Layout = Layout(),
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Graph:
    """The pairs that entmax attention gives weight to.

    >>> gold_graph(q, k).sparsity()

    The arguments are those of `attention`.
    """
    call = checked(q, k, k[..., :0] if isinstance(k, Tensor) else k, None, alpha, layout, scale, bias, 0.0)
    with torch.no_grad():
        weights = choose("auto", call).weights(call)
    batch, head, query, key = weights.indices()[:, weights.values() > 0]
    return Graph.of_pairs(batch, head, query, key, call.grid)
