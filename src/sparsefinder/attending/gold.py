"""The gold graph: the pairs that attention gives weight to, or most of it. Sec. 4 of the paper.

Entmax gives most pairs none. Softmax gives every pair some, so that of its rows the fewest keys are gold that have a
share of the weight together: what is left out then is a known share of what attention returns.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError, is_number
from .api import checked, choose
from .call import Call
from .portable import dense_weights

__all__ = ["MASS", "check_mass", "gold_graph", "gold_shares", "heaviest", "mass_missed", "weighed_gold"]

# The share of a row's weight that its gold keys have, where every key has some.
MASS = 0.95
# A share that is missed by rounding is reached: of ten equal weights, nine have 0.9.
ROUNDING = 1e-6


def gold_graph(
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    alpha: float | Float[Tensor, " heads"] = 1.5,
    layout: Layout = Layout(),
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    mass: float | None = None,
) -> Graph:
    """The pairs that attention gives weight to.

    >>> gold_graph(q, k).sparsity()
    >>> gold_graph(q, k, alpha=1.0, mass=0.99)  # of softmax attention, the fewest keys of a row with 99 % of its weight

    mass: of each row the fewest keys that have this share of its weight, of equal ones the first. If None, all that
    have weight; but 95 % of it in heads with an α of up to 1, softmax among them, where every key has some.
    The other arguments are those of `attention`.
    """
    call = checked(q, k, k[..., :0] if isinstance(k, Tensor) else k, None, alpha, layout, scale, bias, 0.0)
    return weighed_gold(call, mass)[0]


def weighed_gold(call: Call, mass: float | None) -> tuple[Graph, Float[Tensor, " pairs"]]:
    """The gold graph of a call, and the weight of each of its pairs, in the order of `graph.pairs()`."""
    check_mass(mass)
    shares = gold_shares(call.alpha, mass)
    with torch.no_grad():
        if shares is not None:
            return _by_mass(call, shares.expand(call.grid.heads))
        weights = choose("auto", call).weights(call)
    some = weights.values() > 0
    batch, head, query, key = weights.indices()[:, some]
    return Graph.of_pairs(batch, head, query, key, call.grid), weights.values()[some]


def gold_shares(alpha: float | Tensor, mass: float | None) -> Tensor | None:
    """The share of a row's weight that its gold keys have, for all heads or one each; None where it is all of it."""
    alphas = torch.as_tensor(alpha)
    if mass is None and bool((alphas > 1).all()):
        return None
    return torch.where(alphas <= 1, MASS, 1.0) if mass is None else torch.as_tensor(mass)


def heaviest(weights: Float[Tensor, "*heads n m"], shares: Float[Tensor, " heads"]) -> Bool[Tensor, "*heads n m"]:
    """The fewest keys of each row that have a share of its weight; of equal ones the first."""
    ordered, order = weights.double().sort(dim=-1, descending=True, stable=True)
    # Taken is what has weight and does not come after enough of it.
    before = ordered.cumsum(-1) - ordered
    wanted = shares.to(ordered)[:, None, None] * ordered.sum(-1, keepdim=True) * (1 - ROUNDING)
    return torch.zeros_like(weights, dtype=torch.bool).scatter_(-1, order, (ordered > 0) & (before < wanted))


def mass_missed(
    graph: Graph,
    q: Float[Tensor, "batch heads n d"],
    k: Float[Tensor, "batch kv_heads m d"],
    alpha: float | Float[Tensor, " heads"] = 1.5,
    scale: float | None = None,
) -> Float[Tensor, "batch heads"]:
    """Of the weight that attention gives to all pairs, the share that falls on pairs which a graph does not have.

    >>> mass_missed(Window(11)(q, k), q, k, alpha=1.0)

    Every query that sees a key counts the same; without any it is NaN. The layout is the graph's.
    """
    call = checked(q, k, k[..., :0], None, alpha, graph.grid.layout, scale, None, 0.0)
    batch, heads, n, m = graph.grid.shape
    missed = torch.zeros((batch, heads), dtype=torch.double, device=q.device)
    with torch.no_grad():
        # What has weight is listed where it is little.
        sparse = bool((torch.as_tensor(call.alpha) > 1).all())
        listed = choose("auto", call).weights(call) if sparse else None
        for queries in chunks(n if m else 0, batch * heads * m):
            left_out = ~graph.mask(queries)
            if listed is None:
                missed += (dense_weights(call, queries) * left_out).sum((-1, -2), dtype=torch.double)
                continue
            here = (listed.indices()[2] >= queries.start) & (listed.indices()[2] < queries.stop)
            b, h, i, j = listed.indices()[:, here]
            lost = listed.values()[here].double() * left_out[b, h, i - queries.start, j]
            missed.index_put_((b, h), lost, accumulate=True)
    return missed / (graph.grid.degrees() > 0).sum(-1, keepdim=True)


def check_mass(mass: Any) -> None:
    """Raise if a share of weight is none."""
    if mass is not None and not (is_number(mass) and 0 < mass <= 1):
        raise InputError("mass", repr(mass), "a share of the weight of a row above 0 and up to 1, or None")


def _by_mass(call: Call, shares: Float[Tensor, " heads"]) -> tuple[Graph, Float[Tensor, " pairs"]]:
    """The fewest keys of each row that have a share of its weight, some queries at a time."""
    grid = call.grid
    batch, heads, n, m = grid.shape
    found = [torch.zeros(0, dtype=torch.long, device=grid.device)]
    weighed = [torch.zeros(0, dtype=torch.double, device=grid.device)]
    for queries in chunks(n if m else 0, batch * heads * m):
        weights = dense_weights(call, queries).double()
        b, h, i, j = heaviest(weights, shares).nonzero().unbind(-1)
        found.append(((b * heads + h) * n + i + queries.start) * m + j)
        weighed.append(weights[b, h, i, j])
    numbers, places = torch.cat(found).sort()
    return Graph.of_numbers(numbers, grid), torch.cat(weighed)[places]
