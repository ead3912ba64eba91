"""Attention on the CPU in C++: exact, faster than softmax attention, at the cost of the graph where there is one.

Thin: what the kernels in `kernels/` cannot take is refused here, and tensors become what they expect: vectors of
float32, each contiguous, whose sizes are multiples of LANES, which is 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import compiled
from ..compiled import Held, capsule
from ..core.graph import Graph
from ..core.mapping import maps_natively, wide
from ..core.pieces import (
    Band,
    Bands,
    Blocks,
    Buckets,
    Columns,
    Diagonals,
    EveryPair,
    Near,
    Pairs,
    Piece,
    Rows,
    Rule,
    Sketched,
)
from ..errors import InputError
from .call import Call, kernel_refusal

_native: Any = compiled.module

__all__ = ["Counted", "counted_pairs", "counting", "refusal", "run", "weights"]

LEAST_SCREENED: int = _native.LEAST_SCREENED if _native else 0
EVERYTHING = Band(None, None)


class Counted:
    """How many scores were computed in float32, for each [batch, head]: what `counting` gives."""

    pairs: Tensor

    def start(self, batch: int, heads: int) -> Tensor:
        self.pairs = torch.zeros(batch, heads, dtype=torch.long)
        return self.pairs


_counter: ContextVar[Counted | None] = ContextVar("counter", default=None)


@contextmanager
def counting() -> Iterator[Counted]:
    """Count the scores of the native calls made within; the last call's count stays.

    >>> with counting() as counted:
    ...     out = attention(q, k, v, exact=True)
    >>> counted.pairs.sum() / layout.of(q, k).degrees().sum() / heads  # the share of pairs that was computed
    """
    counted = Counted()
    token = _counter.set(counted)
    try:
        yield counted
    finally:
        _counter.reset(token)


def counted_pairs(batch: int, heads: int) -> Tensor | None:
    """Where a call shall count its scores, if somebody wants to know."""
    counter = _counter.get()
    return None if counter is None else counter.start(batch, heads)


def refusal(call: Call) -> str | None:
    if _native is None:
        return "was not built when sparsefinder was installed (it needs a C++20 compiler)"
    if call.q.device.type != "cpu":
        return f"runs on the CPU only, not on {call.q.device}"
    if max(call.grid.n, call.grid.m) > _native.MOST_KEYS:
        return f"takes at most {_native.MOST_KEYS} queries and keys"
    least = min(call.alpha.tolist(), default=2.0) if isinstance(call.alpha, Tensor) else call.alpha
    if least < 1:
        return "takes no alpha below 1"
    if least == 1 and call.graph is None:
        return "leaves softmax over all pairs to torch: it has no zeros to leave out"
    return kernel_refusal(call)


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    arguments, tensors = _Arguments.of(call), (call.q, call.k, call.v, call.alpha)
    # A decoding step takes microseconds: what only gradients need is left out where there are none.
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in tensors):
        out: Tensor = _Attention.apply(*tensors, arguments)
        return out
    return arguments.forward(*tensors, save=False)[0]


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    _, support = _Arguments.of(call).forward(call.q, call.k, call.v, call.alpha, save=True)
    total = support.total()
    rows, keys, values = torch.empty(total, dtype=torch.long), torch.empty(total, dtype=torch.long), torch.empty(total)
    support.write(rows, keys, values)
    head = rows // max(call.grid.n, 1)
    place = torch.stack((head // call.grid.heads, head % call.grid.heads, rows % max(call.grid.n, 1), keys))
    return torch.sparse_coo_tensor(place, values, call.grid.shape, check_invariants=False, is_coalesced=True)


@dataclass(frozen=True)
class _Arguments:
    """What of a call is not a tensor with a gradient, in the kernels' terms."""

    scale: float
    causal: bool
    query_offset: Tensor | None
    key_lengths: Tensor | None
    query_lengths: Tensor | None
    pieces: list[Any]
    screened: bool
    plain: bool

    @staticmethod
    def of(call: Call) -> _Arguments:
        layout, batch = call.grid.layout, call.grid.batch
        offset = layout.query_offset
        offsets = offset if isinstance(offset, Tensor) else torch.full((batch,), offset) if offset else None
        few = call.grid.n * call.groups <= _native.FEW_QUERIES
        # Most of all pairs can be proven to get no weight, more cheaply than by looking at them.
        screened = call.graph is None and call.grid.m >= LEAST_SCREENED and not few
        graph = call.first if screened else call.graph
        pieces = [] if screened else [_piece(EVERYTHING)]
        pieces = pieces if graph is None else _pieces(graph, screened)
        return _Arguments(
            call.scale, layout.causal, _numbers(offsets), _numbers(layout.key_lengths),
            _numbers(layout.query_lengths), pieces, screened, compiled.plain(),
        )  # fmt: skip

    def forward(self, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, save: bool) -> tuple[Tensor, Any]:
        batch, heads, n, _ = q.shape
        width, dtype = v.shape[-1], q.dtype
        q, k, v = _prepared(q), _prepared(k), _prepared(v)
        out = torch.empty((batch, heads, n, v.shape[-1]), dtype=torch.float32)
        support, nonfinite = _native.forward(
            capsule(q), capsule(k), capsule(v), capsule(out), _alphas(alpha, heads), self.scale, self.causal,
            self.query_offset, self.key_lengths, self.query_lengths, self.pieces, self.screened,
            torch.get_num_threads(), self.plain, save, counted_pairs(batch, heads),
        )  # fmt: skip
        if nonfinite:
            raise InputError("scores", "NaN or infinity among them", "queries and keys whose products are finite")
        return _cut(out, width, dtype), support

    def backward(
        self, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, grad: Tensor, support: Any, wants_alpha: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        depth, width, heads, dtype = q.shape[-1], v.shape[-1], q.shape[1], q.dtype
        q, k, v, grad = (_prepared(x) for x in (q, k, v, grad))
        grads = [torch.empty(x.shape, dtype=torch.float32) for x in (q, k, v)]
        grad_alpha = torch.zeros(heads, dtype=torch.float64) if wants_alpha else None
        _native.backward(
            *(capsule(x) for x in (q, k, v, grad, *grads)), _alphas(alpha, heads), self.scale, grad_alpha, support,
            torch.get_num_threads(), self.plain,
        )  # fmt: skip
        grad_q, grad_k, grad_v = (_cut(x, size, dtype) for x, size in zip(grads, (depth, depth, width), strict=True))
        return grad_q, grad_k, grad_v, grad_alpha


class _Attention(torch.autograd.Function):
    """Saves the inputs and the support, which is a small part of n × m."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, arguments: _Arguments) -> Tensor:
        out, support = arguments.forward(q, k, v, alpha, save=True)
        ctx.save_for_backward(q, k, v, *([alpha] if isinstance(alpha, Tensor) else []))
        # The pieces have done their work.
        ctx.arguments, ctx.support = replace(arguments, pieces=[]), Held(support)
        ctx.alpha = None if isinstance(alpha, Tensor) else alpha
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *alphas = ctx.saved_tensors
        alpha = alphas[0] if alphas else ctx.alpha
        grad_q, grad_k, grad_v, grad_alpha = ctx.arguments.backward(
            q, k, v, alpha, grads[0], ctx.support.value, ctx.needs_input_grad[3]
        )
        return grad_q, grad_k, grad_v, None if grad_alpha is None else grad_alpha.to(alpha.dtype), None


def _pieces(graph: Graph, screened: bool) -> list[Any]:
    """The graph's pieces in the kernels' terms. A graph with a piece that they do not know is listed pair by pair."""
    pieces: tuple[Piece, ...] = graph.pieces
    if not all(_knows(piece, graph) for piece in pieces):
        pieces = (graph.pairs(),)
    # Rules last: what other pieces have already is told from these more cheaply than by comparing again.
    rules = [piece for piece in pieces if isinstance(piece, EveryPair)]
    if len(rules) > 1 or screened:
        # Where others have to ask what a rule has, codes have to be there.
        rules = [piece.rule if isinstance(piece, Sketched) else piece for piece in rules]
    return [_piece(piece) for piece in (*(one for one in pieces if not isinstance(one, EveryPair)), *rules)]


def _knows(piece: Piece, graph: Graph) -> bool:
    match piece:
        case Rule():
            # The kernels look for the best of a row among what it sees here.
            single = piece.among is None or piece.among.keys.shape[-1] == 1
            return single and piece.queries.shape[-1] <= _native.MOST_CODES and piece.grid.same_as(graph.grid)
        case Sketched():
            single = piece.among is None or piece.among.keys.shape[-1] == 1
            mapped = maps_natively(piece.q, piece.query_maps) and maps_natively(piece.k, piece.key_maps)
            few = piece.query_maps.shape[-1] < _native.MOST_CODES
            return single and mapped and few and piece.grid.same_as(graph.grid)
        case Near():
            return piece.queries.dtype == torch.float32
    return isinstance(piece, Band | Bands | Diagonals | Columns | Rows | Buckets | Pairs | Blocks)


# Pieces do not change, so that they are turned into the kernels' terms once.
_known: WeakKeyDictionary[Piece, Any] = WeakKeyDictionary()


def _piece(piece: Piece) -> Any:
    if piece not in _known:
        _known[piece] = _turned(piece)
    return _known[piece]


def _turned(piece: Piece) -> Any:
    match piece:
        case Band():
            return _native.band(piece.lower, piece.upper, None)
        case Bands():
            return _native.band(None, None, _whole(piece.reach))
        case Diagonals():
            return _native.diagonals(piece.chosen.contiguous().view(torch.uint8))
        case Columns():
            return _native.columns(piece.keys.contiguous().view(torch.uint8))
        case Rows():
            return _native.rows(piece.queries.contiguous().view(torch.uint8))
        case Buckets():
            return _native.buckets(_whole(piece.queries), _whole(piece.keys))
        case Pairs():
            return _native.blocks(_whole(piece.offsets), _whole(piece.keys), piece.batch, piece.heads, 1, 1)
        case Blocks():
            offsets, blocks = _whole(piece.offsets), _whole(piece.blocks)
            return _native.blocks(offsets, blocks, piece.batch, piece.heads, piece.query_size, piece.key_size)
        case Rule():
            tables = (piece.queries.contiguous(), piece.keys.contiguous(), piece.limits.contiguous())
            buckets = None if piece.among is None else tuple(map(_whole, (piece.among.queries, piece.among.keys)))
            return _native.rule(*tables, _whole(piece.ranks), piece.relative, *(buckets or (None, None)))
        case Sketched():
            maps = wide(piece.query_maps), wide(piece.key_maps)
            buckets = None if piece.among is None else tuple(map(_whole, (piece.among.queries, piece.among.keys)))
            return _native.sketched(
                piece.q, piece.k, *maps, piece.slack, _whole(piece.ranks), *(buckets or (None, None))
            )
        case Near():
            return _native.near(piece.queries.contiguous(), piece.keys.contiguous(), piece.radii.contiguous())
    raise TypeError(f"not a piece that the kernels know: {type(piece).__name__}")


def _whole(numbers: Tensor) -> Tensor:
    return numbers.to(torch.long).contiguous()


def _numbers(numbers: Tensor | None) -> Tensor | None:
    return None if numbers is None else _whole(numbers)


def _alphas(alpha: float | Tensor, heads: int) -> list[float]:
    """One alpha per head."""
    return alpha.tolist() if isinstance(alpha, Tensor) else [alpha] * heads


def _prepared(x: Tensor) -> Tensor:
    """Vectors of float32, each contiguous, padded with zeros to a multiple of LANES: zeros change no product."""
    x = x.detach().to(torch.float32)
    size, lanes = x.shape[-1], _native.LANES
    if size == 0 or size % lanes:
        return torch.nn.functional.pad(x, (0, -size % lanes or lanes))
    return x if x.is_contiguous() or (x.stride(-1) == 1 and min(x.stride()) >= 0) else x.contiguous()


def _cut(x: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """What the caller gets: without the padding, in the type that came in."""
    x = x if x.shape[-1] == size else x[..., :size]
    return x if x.dtype == dtype else x.to(dtype)
