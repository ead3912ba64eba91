"""What Hugging Face models call: entmax attention over the pairs that a layer's finder predicts, or over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.utils.output_capturing import _active_collector

from ..attending import attention
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..finders import Finder
from ..traces.record import Record
from .attend import Attend, Sink, Use
from .indexed import from_index
from .masking import Mask, Turn, entmax_mask, from_tensor, refuse_export
from .scaling import scaled

__all__ = ["NAME", "register"]

NAME = "entmax"
# What torch.compile is told, and says where it is asked why a graph ends there.
EAGER = "entmax attention of sparsefinder: its work depends on the numbers, so that it runs between compiled parts"


def register() -> None:
    """Make `attn_implementation="entmax"` known to transformers, with its mask."""
    AttentionInterface.register(NAME, _between_compiled_parts(entmax_attention))
    AttentionMaskInterface.register(NAME, _between_compiled_parts(entmax_mask))


@cache
def _between_compiled_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    # Made once: what is compiled around another function object is compiled again.
    return torch.compiler.disable(function, reason=EAGER)


def entmax_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend with entmax over the pairs that the module's finder predicts, or over all."""
    attend = _attend_of(module)
    refuse_export()
    _check_scores(kwargs)
    use, sinks = attend.use, attend.sinks
    attend.used(use)
    if (
        position_bias is not None
        and attend.kind == "cross"
        and not (position_bias.requires_grad or position_bias.any())
    ):
        # T5 adds zeros where it has no bias.
        position_bias = None
    query, key, value = _of_one_type(query, key, value)
    mask, bias = _mask_and_bias(module, attention_mask, position_bias, query, key)
    if attend.kind == "decoder" and key.shape[2] > mask.query_offset + query.shape[2]:
        mask, key, value, bias = _without_room(mask.query_offset + query.shape[2], mask, key, value, bias)
    query = scaled(module, attend, mask, query, key)
    alpha = attend.alpha_of(module)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    weighed = _weights_wanted(kwargs)
    if use.finder is not None and bias is None and not (sinks or dropout or weighed):
        found = from_index(attend, use, mask, query, key, value, alpha, scale)
        if found is not None:
            _placed(attend, mask, mask.layout(query.shape[2], own=attend.kind != "cross"))
            return found.transpose(1, 2).contiguous(), None
    if use.finder is not None or sinks:
        mask, key, value = _with_dropped_keys(mask, key, value)
    given = _to_the_front(attend, mask, query, key, value, bias)
    _record(attend, sinks, given, alpha, scale)
    arguments: dict[str, Any] = {
        "graph": _pairs(attend, use, given), "alpha": alpha, "layout": given.layout, "scale": scale,
        "bias": given.bias, "dropout": dropout, "backend": use.backend, "exact": use.exact and given.allowed is None,
    }  # fmt: skip
    if not weighed:
        return _as_the_model_has_it(attention(given.q, given.k, given.v, **arguments), given.turn), None
    out, weights = attention(given.q, given.k, given.v, return_weights=True, **arguments)
    dense = given.turn.back_pairs(weights.to_dense()).to(query.dtype)
    return _as_the_model_has_it(out, given.turn), dense


@dataclass(frozen=True)
class _Given:
    """What one call attends with, every sequence moved to the front."""

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch kv_heads m d"]
    v: Float[Tensor, "batch kv_heads m e"]
    bias: Tensor | None
    layout: Layout
    # What may be seen of what the layout shows, if that is less.
    allowed: Graph | None
    turn: Turn

    @cached_property
    def every_k(self) -> Float[Tensor, "batch heads m d"]:
        """The keys of each head, also of heads that share them."""
        groups = self.q.shape[1] // self.k.shape[1]
        return self.k if groups == 1 else self.k.repeat_interleave(groups, 1)


def _attend_of(module: nn.Module) -> Attend:
    attend = getattr(module, "sparsefinder", None)
    if not isinstance(attend, Attend):
        raise InputError("model", f"{type(module).__name__} with attn_implementation={NAME!r} alone",
                         "one switched by use_entmax(model, alpha=...) or loaded by load_model(...)")  # fmt: skip
    return attend


def _of_one_type(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values as torch's own attention takes them under autocast, where rotary positions leave queries
    and keys in float32, and values are in half precision.
    """
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind) or tensors[0].dtype == torch.float64:
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors)


def _check_scores(kwargs: Mapping[str, Any]) -> None:
    """Refuse models that do more to their scores than attention here can."""
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            want = "one whose scores are plain products, plus a bias at most"
            raise InputError("model", f"attention with {name}", want)


def _mask_and_bias(
    module: nn.Module, given: Mask | Tensor | None, bias: Tensor | None, query: Tensor, key: Tensor
) -> tuple[Mask, Tensor | None]:
    """The mask as ours, whatever the model hands over, and what is added to scores."""
    if isinstance(given, Mask):
        return given, bias
    n, m = query.shape[2], key.shape[2]
    if given is not None:
        return from_tensor(given, bias, m - n)
    return Mask(getattr(module, "is_causal", False) and n > 1, m - n, None), bias


def _without_room(
    filled: int, mask: Mask, key: Tensor, value: Tensor, bias: Tensor | None
) -> tuple[Mask, Tensor, Tensor, Tensor | None]:
    """What is filled of a cache of a fixed size. Nobody has to look at the rest."""
    if bias is not None and bias.shape[-1] > 1:
        bias = bias[..., :filled]
    return mask.first(filled), key[:, :, :filled], value[:, :, :filled], bias


def _with_dropped_keys(mask: Mask, key: Tensor, value: Tensor) -> tuple[Mask, Tensor, Tensor]:
    """Count positions from the first token, as finders do, also where a sliding window dropped it from the cache."""
    if mask.dropped is None:
        return mask, key, value
    front = (0, 0, mask.dropped.shape[1], 0)
    return mask.unrolled(), nn.functional.pad(key, front), nn.functional.pad(value, front)


def _to_the_front(attend: Attend, mask: Mask, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> _Given:
    """Move sequences that are padded on the left to the front, and say how they lie there."""
    n, own = query.shape[2], attend.kind != "cross"
    turn = Turn.of(mask, n, key.shape[2], own)
    q, k, v = turn.queries(query), turn.keys(key), turn.keys(value)
    layout = _placed(attend, mask, mask.layout(n, own))
    allowed = mask.restriction(layout.of(q, k), turn)
    return _Given(q, k, v, None if bias is None else turn.pairs(bias), layout, allowed, turn)


def _placed(attend: Attend, mask: Mask, layout: Layout) -> Layout:
    """Let cross-attention know from the decoder's self-attention, which comes before it, where the queries stand."""
    if attend.kind == "decoder":
        attend.decoding.offset = layout.query_offset
        # Only cross-attention's keys are moved to the front, so its queries are known where they stand there already.
        attend.decoding.query_lengths = layout.query_lengths if mask.starts is None else None
    elif attend.kind == "cross":
        return replace(layout, query_offset=attend.decoding.offset, query_lengths=attend.decoding.query_lengths)
    return layout


def _record(attend: Attend, sinks: Sequence[Sink], given: _Given, alpha: float | Tensor, scale: float) -> None:
    """Hand the queries and keys to everybody who records."""
    if not sinks:
        return
    fixed = alpha.detach() if isinstance(alpha, Tensor) else alpha
    bias = None if given.bias is None else given.bias.detach()
    q, k = given.q.detach(), given.every_k.detach()
    for sink in sinks:
        sink(Record(attend.kind, attend.layer, q, k, given.layout, scale, fixed, bias, given.allowed))


def _pairs(attend: Attend, use: Use, given: _Given) -> Graph | None:
    """The pairs to compute: those predicted and allowed; None for all that the layout shows."""
    graph = None if use.finder is None else _predicted(attend, use.finder, given)
    if given.allowed is None:
        return graph
    return given.allowed if graph is None or use.exact else graph & given.allowed


def _predicted(attend: Attend, finder: Finder, given: _Given) -> Graph:
    layout, k = given.layout, given.k if finder.grouped else given.every_k
    try:
        graph = finder(given.q, k, layout)
    except InputError as error:
        raise error.of(attend.name) from None
    wanted = layout.of(given.q, k).shape
    if graph.grid.shape != wanted:
        got = f"{finder}, which returned a graph for {graph.grid.shape}"
        raise InputError(f"finder of {attend.name}", got, f"a graph for (batch, heads, queries, keys) = {wanted}")
    return graph


def _as_the_model_has_it(out: Tensor, turn: Turn) -> Tensor:
    """Sequences where they were, and heads after positions."""
    return turn.back(out).transpose(1, 2).contiguous()


def _weights_wanted(kwargs: Mapping[str, Any]) -> bool:
    """Whether the caller asked for `output_attentions`. Some models pass the word on, others set up a collector."""
    collected = _active_collector.get() or {}
    return bool(kwargs.get("output_attentions")) or any(key.endswith("attentions") for key in collected)
