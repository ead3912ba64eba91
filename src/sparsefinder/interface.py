"""What Hugging Face models call: entmax attention, and the mask that goes with it.

Transformers asks the mask function once a forward pass and hands its answer to the attention function of every layer.
The answer here is a `Mask`: a few numbers where the pairs to be seen follow a layout, a matrix only where they don't.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask
from transformers.utils.output_capturing import _active_collector

from .attention import attention
from .errors import InputError
from .finders import Finder
from .graph import Graph
from .layout import Grid, Layout

__all__ = ["NAME", "Attend", "Mask", "Record", "register"]

NAME = "entmax"
KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True, eq=False)
class Record:
    """Queries and keys of one call of one attention layer. Keys that several heads share are repeated for each."""

    kind: str
    layer: int
    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch heads m d"]
    layout: Layout
    scale: float
    alpha: float | Float[Tensor, " heads"]
    bias: Float[Tensor, "..."] | None
    allowed: Graph | None

    @cached_property
    def gold(self) -> Graph:
        """The pairs that the layer really gives weight to."""
        bias = self.bias
        if self.allowed is not None:
            hidden = ~self.allowed.dense()
            bias = torch.zeros((), device=self.q.device, dtype=self.q.dtype) if bias is None else bias
            bias = bias.expand(hidden.shape).masked_fill(hidden, -torch.inf)
        return Graph.of_entmax(self.q, self.k, self.alpha, self.layout, self.scale, bias)


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


@dataclass(frozen=True, eq=False)
class Mask:
    """Which pairs a layer may see: keys that are real, causality, and `allowed` for whatever those two cannot say.

    `dropped` tells which of the keys were real that a sliding window has dropped from the cache.
    """

    causal: bool
    query_offset: int
    real: Bool[Tensor, "batch m"] | None
    allowed: Bool[Tensor, "batch #heads n m"] | None = None
    dropped: Bool[Tensor, "batch before"] | None = None

    @cached_property
    def starts(self) -> Int[Tensor, " batch"] | None:
        """Where each sequence begins, if some are padded on the left."""
        if self.real is None:
            return None
        starts = self.real.to(torch.int8).argmax(-1)
        return starts if bool(starts.any()) else None

    def layout(self, n: int, own: bool) -> Layout:
        """The layout once every sequence is moved to the front. `own`: queries and keys are the same sequence."""
        if self.real is None:
            return Layout(self.causal, query_offset=self.query_offset)
        offset: int | Tensor = self.query_offset
        if own and self.starts is not None and n != self.real.shape[1]:
            # Whole sequences are moved together with their queries; a few queries of a cache stay where they are.
            offset = self.query_offset - self.starts
        queries = self.real[:, self.query_offset : self.query_offset + n]
        whole = own and queries.shape[1] == n
        return Layout(self.causal, self.real.sum(-1), offset, queries.sum(-1) if whole else None)

    def unrolled(self) -> Mask:
        """The same with the dropped keys still there, though hidden."""
        assert self.dropped is not None
        assert self.allowed is not None
        before = self.dropped.shape[1]
        real = None if self.real is None else torch.cat([self.dropped, self.real], 1)
        return Mask(self.causal, self.query_offset + before, real, nn.functional.pad(self.allowed, (before, 0)))

    def restriction(self, grid: Grid, turn: _Turn) -> Graph | None:
        """`allowed` as a graph. All layers share it, so it is made once."""
        if self.allowed is not None and grid.heads not in self._restrictions:
            self._restrictions[grid.heads] = _as_graph(turn.pairs(self.allowed), grid)
        return self._restrictions.get(grid.heads)

    @cached_property
    def _restrictions(self) -> dict[int, Graph]:
        return {}


def register() -> None:
    """Make `attn_implementation="entmax"` known to transformers, with its mask."""
    AttentionInterface.register(NAME, entmax_attention)
    AttentionMaskInterface.register(NAME, entmax_mask)


def entmax_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Mask:
    """Say what transformers wants masked."""
    every = None
    if attention_mask is not None:
        # A cache may have room to spare: what is not filled yet is not real.
        missing = max(0, kv_offset + kv_length - attention_mask.shape[1])
        every = nn.functional.pad(attention_mask.bool(), (0, missing))[:, : kv_offset + kv_length]
        every = None if bool(every.all()) else every
    real = None if every is None else every[:, kv_offset:]
    offset = int(q_offset) - kv_offset
    together = every is None or _contiguous(every)
    if together and kv_offset == 0 and mask_function in (causal_mask_function, bidirectional_mask_function):
        return Mask(mask_function is causal_mask_function, offset, real)
    allowed = sdpa_mask(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=int(q_offset), kv_offset=kv_offset,
        mask_function=mask_function, attention_mask=attention_mask, allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False, use_vmap=kwargs.get("use_vmap", False), device=kwargs.get("device", "cpu"),
    )  # fmt: skip
    assert allowed is not None, "no mask may be left out: both skips are refused above"
    mask = _mask_of(allowed, offset)
    if every is None or not together:
        every = torch.ones(batch_size, kv_offset, dtype=torch.bool, device=allowed.device)
    return replace(mask, real=real if together else None, dropped=every[:, :kv_offset] if kv_offset else None)


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
        attention_mask, bias = _from_tensor(attention_mask, bias, m - n)
    elif attention_mask is None:
        attention_mask = Mask(getattr(module, "is_causal", False) and n > 1, m - n, None)
    if attention_mask.dropped is not None and (attend.finder is not None or attend.sinks):
        # Finders count positions from the first token, also where a sliding window has dropped it from the cache.
        front = (0, 0, attention_mask.dropped.shape[1], 0)
        key, value = nn.functional.pad(key, front), nn.functional.pad(value, front)
        attention_mask, m = attention_mask.unrolled(), key.shape[2]
    own = attend.kind != "cross"
    turn = _Turn.of(attention_mask, n, m, own)
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
    n, m = q.shape[2], k.shape[2]
    if layout.causal and n < m and not attend.finder.causal_safe:
        want = "one that can decode: whether a key is predicted here depends on tokens that do not exist yet"
        raise InputError(f"finder of {attend.name}", attend.finder, want)
    graph = attend.finder(q, k, layout)
    wanted = layout.of(q, k).shape
    if graph.grid.shape != wanted:
        got = f"{attend.finder}, which returned a graph for {graph.grid.shape}"
        raise InputError(f"finder of {attend.name}", got, f"a graph for (batch, heads, queries, keys) = {wanted}")
    return graph


@dataclass(frozen=True, eq=False)
class _Turn:
    """Moves sequences padded on the left to the front, and results back: the core knows one kind of padding."""

    query_order: Int[Tensor, "batch n"] | None = None
    key_order: Int[Tensor, "batch m"] | None = None

    @staticmethod
    def of(mask: Mask, n: int, m: int, own: bool) -> _Turn:
        if mask.starts is None:
            return _Turn()
        order = (torch.arange(m, device=mask.starts.device) + mask.starts[:, None]) % m
        return _Turn(order if own and n == m else None, order)

    def queries(self, x: Tensor) -> Tensor:
        return x if self.query_order is None else x.take_along_dim(self.query_order[:, None, :, None], 2)

    def keys(self, x: Tensor) -> Tensor:
        return x if self.key_order is None else x.take_along_dim(self.key_order[:, None, :, None], 2)

    def pairs(self, x: Tensor) -> Tensor:
        if self.key_order is not None and x.shape[3] > 1:
            x = x.take_along_dim(self.key_order[:, None, None], 3)
        return x if self.query_order is None or x.shape[2] == 1 else self.queries(x)

    def back(self, x: Tensor) -> Tensor:
        return x if self.query_order is None else x.take_along_dim(self.query_order.argsort(-1)[:, None, :, None], 2)

    def back_pairs(self, x: Tensor) -> Tensor:
        back = _Turn(*(None if order is None else order.argsort(-1) for order in (self.query_order, self.key_order)))
        return back.pairs(x)


def _contiguous(real: Bool[Tensor, "batch m"]) -> bool:
    """Whether the real keys of every sequence stand together."""
    places = torch.arange(real.shape[1], device=real.device)
    starts = real.to(torch.int8).argmax(-1, keepdim=True)
    together = (places >= starts) & (places < starts + real.sum(-1, keepdim=True))
    return torch.equal(together, real)


def _mask_of(allowed: Bool[Tensor, "batch #heads n m"], offset: int) -> Mask:
    """A mask from its matrix. Whether it is causal is read off: finders want to know."""
    n, m = allowed.shape[-2:]
    distance = torch.arange(m, device=allowed.device) - torch.arange(n, device=allowed.device)[:, None] - offset
    return Mask(not bool((allowed & (distance > 0)).any()), offset, None, allowed)


def _from_tensor(given: Tensor, bias: Tensor | None, offset: int) -> tuple[Mask, Tensor | None]:
    """A 4D mask of the user's own: true where to look, or numbers to add."""
    if given.dtype == torch.bool:
        return _mask_of(given, offset), bias
    hidden = given <= torch.finfo(given.dtype).min / 2
    rest = given.masked_fill(hidden, 0.0)
    if bool(rest.any()):
        bias = rest if bias is None else bias + rest
    return _mask_of(~hidden, offset), bias


def _as_graph(allowed: Bool[Tensor, "batch #heads n m"], grid: Grid) -> Graph:
    """A band if the visible part is one, as under a sliding window; its pairs otherwise."""
    everything = Graph.full(grid).dense()
    wanted = (allowed & everything).expand(grid.shape)
    b, _, i, j = wanted.nonzero().unbind(-1)
    if len(j):
        distance = j - grid.position(b, i)
        band = Graph.band(int(distance.min()), int(distance.max()), grid)
        if torch.equal(band.dense(), wanted):
            return band
    return Graph.of_dense(allowed, grid)
