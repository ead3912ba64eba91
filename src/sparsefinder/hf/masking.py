"""The mask of a Hugging Face model: which pairs its layers may see.

Transformers asks `entmax_mask` once per forward pass and hands its answer to the attention function of every layer. The
answer is a `Mask`: a few numbers where the pairs to be seen follow a layout, a matrix only where they don't.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

from ..core.graph import Graph
from ..core.layout import Grid, Layout
from ..errors import InputError

__all__ = ["Mask", "Turn", "entmax_mask", "from_tensor", "refuse_export"]


@dataclass(frozen=True, eq=False)
class Mask:
    """Which pairs a layer may see: keys that are real, causality, and `allowed` for whatever those two cannot say.

    `dropped` tells which of the keys were real that a sliding window has dropped from the cache.
    Where a cache is of a fixed size, `generate` makes the mask before it calls the model, and hands it over as one of
    four dimensions that is there already.
    """

    ndim: ClassVar[int] = 4

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
        """The layout once every sequence is moved to the front. `own`: queries and keys are the same sequence.

        All layers share it, so it is made once.
        """
        if (n, own) not in self._layouts:
            self._layouts[n, own] = self._layout(n, own)
        return self._layouts[n, own]

    def _layout(self, n: int, own: bool) -> Layout:
        if self.real is None:
            return Layout(self.causal, query_offset=self.query_offset)
        offset: int | Tensor = self.query_offset
        if own and self.starts is not None and n != self.real.shape[1]:
            # Whole sequences are moved together with their queries; a few queries of a cache stay where they are.
            offset = self.query_offset - self.starts
        queries = self.real[:, self.query_offset : self.query_offset + n]
        whole = own and queries.shape[1] == n
        return Layout(self.causal, self.real.sum(-1), offset, queries.sum(-1) if whole else None)

    def stretches(
        self, batch: int, n: int, m: int, own: bool, first: int
    ) -> tuple[Int[Tensor, "batch n"], Int[Tensor, "batch n"]] | None:
        """Between which keys each query sees all, counted from `first` on; None where some between are hidden.

        All layers share it, so it is made once.
        """
        place = (batch, n, m, own, first)
        if place not in self._stretches:
            found = self._between(n, m, own)
            self._stretches[place] = (
                None
                if found is None
                else tuple(  # type: ignore[assignment]
                    (each.cpu() + first).expand(batch, n).contiguous() for each in found
                )
            )
        return self._stretches[place]

    def _between(self, n: int, m: int, own: bool) -> tuple[Tensor, Tensor] | None:
        position = self.query_offset + torch.arange(n)
        if self.allowed is not None:
            if self.allowed.shape[1:] != (1, n, m):
                return None
            allowed = self.allowed[:, 0]
            lows, counts = allowed.to(torch.int8).argmax(-1), allowed.sum(-1)
            keys = torch.arange(m, device=allowed.device)
            together = (keys >= lows[..., None]) & (keys < (lows + counts)[..., None])
            return (lows, lows + counts) if torch.equal(together, allowed) else None
        if self.real is None:
            highs = (position + 1).clamp(0, m) if self.causal else torch.full((n,), m)
            return torch.zeros_like(highs), highs
        starts = self.real.to(torch.int8).argmax(-1, keepdim=True)
        highs = (starts + self.real.sum(-1, keepdim=True)).expand(-1, n)
        if self.causal:
            highs = torch.minimum(highs, position + 1)
        if own and self.query_offset + n <= m:
            # Queries that are padding see nothing.
            highs = torch.where(self.real[:, self.query_offset : self.query_offset + n], highs, starts)
        return starts, highs

    def contiguous(self) -> Mask:
        """The same: what `generate` asks of any mask."""
        return self

    def first(self, keys: int) -> Mask:
        """The same for the first keys alone. All layers share it, so it is made once."""
        if keys not in self._firsts:
            real = None if self.real is None or bool(self.real[:, :keys].all()) else self.real[:, :keys]
            allowed = None if self.allowed is None else self.allowed[..., :keys]
            self._firsts[keys] = replace(self, real=real, allowed=allowed)
        return self._firsts[keys]

    def unrolled(self) -> Mask:
        """The same with the dropped keys still there, though hidden."""
        assert self.dropped is not None
        assert self.allowed is not None
        before = self.dropped.shape[1]
        real = None if self.real is None else torch.cat([self.dropped, self.real], 1)
        return Mask(self.causal, self.query_offset + before, real, nn.functional.pad(self.allowed, (before, 0)))

    def restriction(self, grid: Grid, turn: Turn) -> Graph | None:
        """`allowed` as a graph. All layers share it, so it is made once."""
        if self.allowed is not None and grid.heads not in self._restrictions:
            self._restrictions[grid.heads] = _as_graph(turn.pairs(self.allowed), grid)
        return self._restrictions.get(grid.heads)

    @cached_property
    def _layouts(self) -> dict[tuple[int, bool], Layout]:
        return {}

    @cached_property
    def _firsts(self) -> dict[int, Mask]:
        return {}

    @cached_property
    def _stretches(self) -> dict[tuple[int, int, int, bool, int], tuple[Tensor, Tensor] | None]:
        return {}

    @cached_property
    def _restrictions(self) -> dict[int, Graph]:
        return {}


def entmax_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Mask | Tensor | None = None,
    **kwargs: Any,
) -> Mask:
    """Say what transformers wants masked."""
    refuse_export()
    if isinstance(attention_mask, Mask):
        return attention_mask
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


def refuse_export() -> None:
    """Refuse to be written down once for all inputs."""
    if torch.compiler.is_exporting():
        got = "a model with entmax attention, which computes what the numbers ask for"
        raise InputError("torch.export", got, "torch.compile(model), which runs attention between compiled parts")


@dataclass(frozen=True, eq=False)
class Turn:
    """Moves sequences padded on the left to the front, and results back: the core knows one kind of padding."""

    query_order: Int[Tensor, "batch n"] | None = None
    key_order: Int[Tensor, "batch m"] | None = None

    @staticmethod
    def of(mask: Mask, n: int, m: int, own: bool) -> Turn:
        if mask.starts is None:
            return Turn()
        order = (torch.arange(m, device=mask.starts.device) + mask.starts[:, None]) % m
        return Turn(order if own and n == m else None, order)

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
        back = Turn(*(None if order is None else order.argsort(-1) for order in (self.query_order, self.key_order)))
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


def from_tensor(given: Tensor, bias: Tensor | None, offset: int) -> tuple[Mask, Tensor | None]:
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
