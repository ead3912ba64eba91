"""Attention in torch operations, for any device: never holds n × m numbers, differentiable, gathers sparse graphs.

Two ways, whichever is cheaper for the graph. *Dense*: a chunk of queries against all keys, under the graph's mask.
*Gathered*: groups of neighbouring queries against the keys that the graph lists for them. Each chunk is computed again
in the backward pass instead of being kept, so training needs no more memory than one chunk either. Softmax over all
pairs is what torch's own attention is made for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..core.chunks import CHUNK, chunks
from ..core.entmax import entmax
from ..core.graph import Graph
from .call import Call

__all__ = ["dense_weights", "refusal", "run", "weights"]

# What gathering the key and the value of one listed pair costs, in units of one pair of the dense way: measured.
GATHER = 20
# How many numbers are gathered at a time on a CPU: little enough for the memory to be reused rather than mapped anew.
CPU_CHUNK = 1 << 21


def refusal(call: Call) -> str | None:
    return None


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    if _is_plain_softmax(call):
        q, k, v = (x.to(call.dtype) for x in (call.q, call.k, call.v))
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=call.grid.layout.causal and call.grid.n > 1, scale=call.scale, enable_gqa=call.groups > 1
        )
    if _gathering_pays(call):
        return _run_gathered(call)
    # Where there is no query there is a chunk of none, so that the result has a gradient all the same.
    parts = [_maybe_again(_dense_chunk, call, queries) for queries in list(_chunks(call)) or [slice(0, 0)]]
    return torch.cat(parts, 2)


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    """The weights as a sparse tensor: all scores of a chunk are computed, only what got weight is kept."""
    places = [torch.zeros(0, 4, dtype=torch.long, device=call.q.device)]
    values = [torch.zeros(0, dtype=call.dtype, device=call.q.device)]
    for queries in _chunks(call):
        p = dense_weights(call, queries)
        place = p.nonzero()
        values.append(p[tuple(place.unbind(-1))])
        place[:, 2] += queries.start
        places.append(place)
    sparse = torch.sparse_coo_tensor(torch.cat(places).T, torch.cat(values), call.grid.shape, check_invariants=False)
    return sparse.coalesce()


def _maybe_again(chunk: Callable[..., Tensor], call: Call, *where: Any) -> Tensor:
    """Compute a chunk; if a gradient will be wanted, keep nothing of it and compute it again then."""
    inputs = [x for x in (call.q, call.k, call.v, call.bias, call.alpha) if isinstance(x, Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        result: Tensor = checkpoint(
            chunk, call, *where, use_reentrant=False, preserve_rng_state=call.dropout > 0, determinism_check="none"
        )
        return result
    return chunk(call, *where)


def _chunks(call: Call) -> Iterator[slice]:
    batch, heads, n, m = call.grid.shape
    return chunks(n, batch * heads * m)


def _dense_chunk(call: Call, queries: slice) -> Float[Tensor, "batch heads count e"]:
    p = torch.nn.functional.dropout(dense_weights(call, queries), call.dropout)
    batch, heads, count, m = p.shape
    by_key_head = p.reshape(batch, call.k.shape[1], call.groups * count, m)
    return (by_key_head @ call.v.to(p.dtype)).reshape(batch, heads, count, call.v.shape[-1])


def dense_weights(call: Call, queries: slice) -> Float[Tensor, "batch heads count m"]:
    """The weights of some queries, in a matrix."""
    q = call.q[:, :, queries].to(call.dtype) * call.scale
    batch, heads, count, d = q.shape
    by_key_head = q.reshape(batch, call.k.shape[1], call.groups * count, d)
    scores = (by_key_head @ call.k.to(call.dtype).transpose(-1, -2)).reshape(batch, heads, count, call.grid.m)
    if call.bias is not None:
        scores = scores + (call.bias if call.bias.shape[2] == 1 else call.bias[:, :, queries]).to(call.dtype)
    if not _sees_everything(call):
        scores = scores.masked_fill(~call.pairs.mask(queries), -math.inf)
    return entmax(scores, call.alpha if isinstance(call.alpha, float) else call.alpha[:, None, None])


def _is_plain_softmax(call: Call) -> bool:
    """Whether torch's attention computes this without n × m numbers: dropout makes it keep them."""
    layout, (batch, heads, n, m) = call.grid.layout, call.grid.shape
    if isinstance(call.alpha, Tensor) or call.alpha != 1 or call.graph is not None or call.bias is not None:
        return False
    first = layout.query_offset
    if call.dropout or layout.ragged or isinstance(first, Tensor) or not batch * heads * n * m:
        return False
    return not layout.causal or (n == m and first == 0) or (n == 1 and first == m - 1)


def _sees_everything(call: Call) -> bool:
    layout = call.grid.layout
    return call.graph is None and not layout.causal and layout.key_lengths is None and layout.query_lengths is None


def _gathering_pays(call: Call) -> bool:
    graph = call.graph
    if graph is None or graph.grid.n == 0 or graph.grid.m == 0:
        return False
    grid, group = graph.grid, _group(graph)
    # Every list is padded to the longest of its chunk; lists of like length come together, so the sum is about right.
    listed = graph.list_bound(group)
    return listed * (group + GATHER) < grid.batch * grid.heads * grid.n * grid.m


def _group(graph: Graph) -> int:
    """How many queries share a list of keys: as many as the graph says, or a part of them where there are fewer."""
    most = min(graph.group, graph.grid.n)
    return next(size for size in range(most, 0, -1) if graph.group % size == 0)


def _run_gathered(call: Call) -> Float[Tensor, "batch heads n e"]:
    graph = call.pairs
    group = _group(graph)
    width = call.q.shape[-1] + call.v.shape[-1] + group
    done: list[Tensor] = []
    outs: list[Tensor] = []
    for firsts, keys in graph.lists(group, budget=(CPU_CHUNK if call.q.device.type == "cpu" else CHUNK) // width):
        rows = firsts[:, None] + torch.arange(group, device=firsts.device)
        inside = firsts[:, None] % graph.grid.n + torch.arange(group, device=firsts.device) < graph.grid.n
        outs.append(_maybe_again(_gathered_chunk, call, graph, firsts, keys, group)[inside])
        done.append(rows[inside])
    order = torch.cat(done).argsort()
    return torch.cat(outs)[order].reshape(*call.q.shape[:3], call.v.shape[-1])


def _gathered_chunk(
    call: Call, graph: Graph, firsts: Int[Tensor, " count"], keys: Int[Tensor, "count width"], group: int
) -> Float[Tensor, "count group e"]:
    n, m, (count, width) = call.grid.n, call.grid.m, keys.shape
    head, first = firsts // n, firsts % n
    b, h = head // call.grid.heads, head % call.grid.heads
    i = (first[:, None] + torch.arange(group, device=keys.device)).clamp(max=n - 1)
    q = call.q.flatten(0, 2)[(head[:, None] * n + i).flatten()]
    place = ((b * call.k.shape[1] + h // call.groups)[:, None] * m + keys.clamp(min=0)).flatten()
    k = call.k.flatten(0, 2).index_select(0, place).unflatten(0, (count, width))
    scores = q.unflatten(0, (count, group)).to(call.dtype) * call.scale @ k.to(call.dtype).transpose(-1, -2)
    if call.bias is not None:
        bias = call.bias.expand(call.grid.shape)
        scores = scores + bias[b[:, None, None], h[:, None, None], i[:, :, None], keys[:, None].clamp(min=0)]
    alpha = call.alpha if isinstance(call.alpha, float) else call.alpha[h][:, None, None]
    p = entmax(scores.masked_fill(~graph.among(b, h, i, keys), -math.inf), alpha)
    v = call.v.flatten(0, 2).index_select(0, place).unflatten(0, (count, width))
    return torch.nn.functional.dropout(p, call.dropout) @ v.to(call.dtype)
