"""What Hugging Face models call: entmax attention over the pairs that a layer's finder predicts, or over all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.utils.output_capturing import _active_collector

from ..attending import attention
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..finders import Finder
from ..traces.record import Record
from .masking import Mask, Turn, entmax_mask, from_tensor

__all__ = ["KINDS", "NAME", "Attend", "Decoding", "register"]

NAME = "entmax"
KINDS = ("encoder", "decoder", "cross")


@dataclass
class Decoding:
    """How far the decoder of a model is, and which of its queries are real: its self-attention knows, and its
    cross-attention is not told.
    """

    offset: int | Tensor = 0
    query_lengths: Tensor | None = None


@dataclass
class Attend:
    """How one attention module attends: put on the module as `module.sparsefinder`, read at every call."""

    kind: str
    layer: int
    heads: int
    alpha: float | None
    decoding: Decoding
    backend: str = "auto"
    finder: Finder | None = None
    exact: bool = False
    sinks: list[Callable[[Record], object]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.kind} layer {self.layer}"

    def alpha_of(self, module: nn.Module) -> float | Tensor:
        """One number for all heads, or one for each: fixed, or learned as 1 + σ(a) (Correia et al., 2019)."""
        if self.alpha is not None:
            return self.alpha
        learned = getattr(module, "entmax_logit", None)
        return module.get_buffer("entmax_alpha") if learned is None else 1 + torch.sigmoid(learned)


def register() -> None:
    """Make `attn_implementation="entmax"` known to transformers, with its mask."""
    AttentionInterface.register(NAME, entmax_attention)
    AttentionMaskInterface.register(NAME, entmax_mask)


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
    attend = getattr(module, "sparsefinder", None)
    if not isinstance(attend, Attend):
        raise InputError("model", f"{type(module).__name__} with attn_implementation={NAME!r} alone",
                         "one switched by use_entmax(model, alpha=...) or loaded by load_model(...)")  # fmt: skip
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise InputError(
                "model", f"attention with {name}", "one whose scores are plain products, plus a bias at most"
            )
    n, m = query.shape[2], key.shape[2]
    bias = position_bias
    if isinstance(attention_mask, Tensor):
        attention_mask, bias = from_tensor(attention_mask, bias, m - n)
    elif attention_mask is None:
        attention_mask = Mask(getattr(module, "is_causal", False) and n > 1, m - n, None)
    if attention_mask.dropped is not None and (attend.finder is not None or attend.sinks):
        # Finders count positions from the first token, also where a sliding window has dropped it from the cache.
        front = (0, 0, attention_mask.dropped.shape[1], 0)
        key, value = nn.functional.pad(key, front), nn.functional.pad(value, front)
        attention_mask, m = attention_mask.unrolled(), key.shape[2]
    own = attend.kind != "cross"
    turn = Turn.of(attention_mask, n, m, own)
    q, k, v = turn.queries(query), turn.keys(key), turn.keys(value)
    bias = None if bias is None else turn.pairs(bias)
    layout = attention_mask.layout(n, own)
    if attend.kind == "decoder":
        attend.decoding.offset = layout.query_offset
        # Only cross-attention's keys are moved to the front, so its queries are known where they stand there already.
        attend.decoding.query_lengths = layout.query_lengths if attention_mask.starts is None else None
    elif attend.kind == "cross":
        layout = replace(layout, query_offset=attend.decoding.offset, query_lengths=attend.decoding.query_lengths)
    allowed = attention_mask.restriction(layout.of(q, k), turn)
    alpha = attend.alpha_of(module)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if attend.sinks or attend.finder is not None:
        every_k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    for sink in attend.sinks:
        fixed = alpha.detach() if isinstance(alpha, Tensor) else alpha
        shift = None if bias is None else bias.detach()
        sink(Record(attend.kind, attend.layer, q.detach(), every_k.detach(), layout, scale, fixed, shift, allowed))
    graph = None if attend.finder is None else _predict(attend, q, every_k, layout)
    if allowed is not None:
        graph = allowed if graph is None or attend.exact else graph & allowed
    arguments: dict[str, Any] = {
        "alpha": alpha, "layout": layout, "scale": scale, "bias": bias, "dropout": dropout, "backend": attend.backend,
        "exact": attend.exact and allowed is None,
    }  # fmt: skip
    if not _weights_wanted(kwargs):
        out = attention(q, k, v, graph, **arguments)
        return turn.back(out).transpose(1, 2).contiguous(), None
    out, weights = attention(q, k, v, graph, return_weights=True, **arguments)
    dense = turn.back_pairs(weights.to_dense()).to(query.dtype)
    return turn.back(out).transpose(1, 2).contiguous(), dense


def _weights_wanted(kwargs: dict[str, Any]) -> bool:
    """Whether the caller asked for `output_attentions`. Some models pass the word on, others set up a collector."""
    collected = _active_collector.get() or {}
    return bool(kwargs.get("output_attentions")) or any(key.endswith("attentions") for key in collected)


def _predict(attend: Attend, q: Tensor, k: Tensor, layout: Layout) -> Graph:
    assert attend.finder is not None
    try:
        graph = attend.finder(q, k, layout)
    except InputError as error:
        raise error.of(attend.name) from None
    wanted = layout.of(q, k).shape
    if graph.grid.shape != wanted:
        got = f"{attend.finder}, which returned a graph for {graph.grid.shape}"
        raise InputError(f"finder of {attend.name}", got, f"a graph for (batch, heads, queries, keys) = {wanted}")
    return graph
