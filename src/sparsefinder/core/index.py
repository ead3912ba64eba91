"""An index of keys: what a finder knows of them, kept beside a cache, so that decoding need not look at all of them.

Of each key there are a few whole numbers of 8 bits per head, its code, made once and never changed by keys that come
later. Keys come at the end, as tokens do; sequences are selected, repeated and reordered as those of a cache are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import Held, capsule
from ..errors import InputError
from .codes import key_codes, query_codes, refuse_nonfinite
from .graph import Graph
from .layout import Grid, Layout
from .mapping import mapped, maps_natively, wide
from .pieces import Rule
from .pieces.rules import FAR, limits_of

__all__ = ["KeyIndex"]

# Keys of a panel, as the kernels read them (kernels/screen.h), and where in it each of them is.
PANEL = 32
PLACES = torch.tensor([(j >> 3 & 1) * 16 + (j & 7) + (j >> 4) * 8 for j in range(PANEL)])
# The product of a key that is to be looked at always, as in kernels/index.h.
ALWAYS = 32000
# Taken off a number of keys before it is rounded up, as in kernels/constants.h.
ROUNDING = 1e-6


class KeyIndex:
    """The codes of keys, with room for more, and the rule that they are asked by.

    >>> index = sketch.index(k)             # Sketch(r=32, slack=3.0).fit(samples)
    >>> index.append(new)                   # as if it had been made of both
    >>> index.graph(q, Layout(True, query_offset=index.length - 1))

    query_maps, key_maps: to where products are scores.
    ranks: how many dimensions count for each head, none to have it look at all keys.
    slack, share: one of them: what passes, per head, as `Sketch` says it.
    """

    # Whether what it leaves out is proven to get no weight.
    exact = False

    def __init__(
        self,
        query_maps: Float[Tensor, "heads d r"],
        key_maps: Float[Tensor, "heads d r"],
        ranks: Int[Tensor, " heads"],
        slack: Float[Tensor, " heads"] | None = None,
        share: Float[Tensor, " heads"] | None = None,
    ) -> None:
        self.query_maps, self.key_maps, self.ranks = query_maps, key_maps, ranks.cpu()
        self.slack, self.share = slack, share
        self.length = self.capacity = 0
        self.panels = torch.empty(0, 0, dtype=torch.uint8)
        self._lay_out([rank + rank % 2 for rank in self.ranks.tolist()])

    def _lay_out(self, codes: list[int]) -> None:
        # Codes of each head, an even number, and bytes of its panels: 32 keys, then the start of the sum of each.
        self._codes = codes
        # Of the tables that have all heads.
        self._width = max(2, *codes)
        self._bytes = [PANEL * (count + 2) if count else 0 for count in codes]

    def __getstate__(self) -> dict[str, Any]:
        # What the kernels hold is made again where a copy is asked.
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    def __repr__(self) -> str:
        return f"KeyIndex({self.panels.shape[0]} × {len(self._codes)} heads, {self.length} keys)"

    @property
    def codes_of_heads(self) -> tuple[int, ...]:
        """How many bytes of a key are multiplied in each head."""
        return tuple(self._codes)

    @property
    def bytes_per_key(self) -> float:
        """Of one sequence, as a mean over its heads."""
        return sum(self._bytes) / max(len(self._bytes), 1) / PANEL

    @property
    def nbytes(self) -> int:
        """What it takes in memory, with its room."""
        return self.panels.numel()

    def append(self, k: Float[Tensor, "batch kv_heads count d"]) -> KeyIndex:
        """Take up keys that come after those that are there; heads may share them in groups."""
        batch, kv_heads, count, d = k.shape
        heads, depth = self.key_maps.shape[:2]
        if d != depth or kv_heads == 0 or heads % kv_heads:
            want = f"{heads} heads, or a number that divides it, of {depth} dimensions, as the finder was fitted for"
            raise InputError("k", f"shape {tuple(k.shape)}", want)
        if self.length and batch != self.panels.shape[0]:
            raise InputError("k", f"{batch} sequences", f"the {self.panels.shape[0]} that the index is of")
        if count == 0:
            return self
        self._make_room(batch, count, k.device)
        if self.natively(k):
            # What is not finite is found before anything is said to be there.
            if compiled.module.append_keys(  # type: ignore[union-attr]
                self.held, capsule(self.panels), self.capacity, capsule(k.detach()), self.length,
                torch.get_num_threads(), compiled.plain(),
            ):  # fmt: skip
                refuse_nonfinite()
        else:
            self._take(k)
        self.length += count
        return self

    def crop(self, length: int) -> None:
        """Forget all keys but the first."""
        self.length = max(0, min(length, self.length))

    def select(self, sequences: Int[Tensor, " some"]) -> None:
        """Keep these sequences, in this order: batches that are cut down, and beams."""
        self.panels = self.panels.index_select(0, sequences.to(self.panels.device))

    def repeat(self, times: int) -> None:
        """Have every sequence so many times, one after the other."""
        self.panels = self.panels.repeat_interleave(times, 0)

    @property
    def codes(self) -> Int[Tensor, "batch heads length codes"]:
        """The codes as they were made; zeros after the last of a head."""
        found = self.panels.new_zeros((len(self.panels), len(self._codes), self.length, self._width))
        for h, count in enumerate(self._codes):
            if count:
                found[:, h, :, :count] = self._of_head(h)[:, self._where(h, 0, self.length)]
        return found.view(torch.int8)

    def graph(self, q: Float[Tensor, "batch heads n d"], layout: Layout = Layout()) -> Graph:
        """What the index says that queries should look at."""
        grid = Grid(q.shape[0], q.shape[1], q.shape[2], self.length, layout, q.device)
        queries, units = query_codes(self._cut(mapped(q, self.query_maps)))
        queries = queries[..., : self._width]
        ranks = torch.tensor(self._codes, device=q.device)
        if self.slack is not None:
            return Graph(grid, (Rule(queries, self.codes, limits_of(units, self.slack), grid, ranks),))
        assert self.share is not None
        products = queries.float() @ self.codes.float().mT
        b, i, j = (torch.arange(size, device=q.device) for size in (grid.batch, grid.n, grid.m))
        seen = grid.visible(b[:, None, None], i[:, None], j).expand(grid.batch, grid.n, grid.m)[:, None]
        highest = products.masked_fill(~seen, -FAR).sort(-1, descending=True).values
        wanted = (seen.sum(-1, keepdim=True) * self.share[:, None, None] - ROUNDING).ceil().long()
        last = highest.gather(-1, (wanted - 1).clamp(min=0)) if grid.m else highest.new_zeros((*products.shape[:3], 1))
        limits = torch.where(wanted > 0, last, FAR)[..., 0].int()
        return Graph(grid, (Rule(queries, self.codes, limits, grid, ranks, relative=False),))

    def natively(self, tokens: Tensor) -> bool:
        """Whether the kernels can take these queries or keys."""
        return maps_natively(tokens, self.key_maps) and self.query_maps.shape[-1] < compiled.module.MOST_CODES  # type: ignore[union-attr]

    @property
    def held(self) -> Any:
        """What does not change, as the kernels take it."""
        return self._held.value

    @cached_property
    def _held(self) -> Held:
        return self._hold()

    def _hold(self) -> Held:
        assert compiled.module is not None
        maps = (wide(self.query_maps), wide(self.key_maps), self.ranks.contiguous())
        return Held(compiled.module.index_maps(*maps, None, None))

    def _take(self, k: Float[Tensor, "batch kv_heads count d"]) -> None:
        """Append keys without the kernels."""
        self._write(key_codes(self._cut(mapped(k, self.key_maps))))

    def _make_room(self, batch: int, count: int, device: torch.device) -> None:
        needed = -(-(self.length + count) // PANEL)
        if needed <= self.capacity and (self.length or batch == len(self.panels)):
            return
        # Twice as much each time, so that a key is moved no more than about once, however long a sequence grows.
        capacity = max(needed, 2 * self.capacity) if self.length else needed
        grown = torch.empty(batch, capacity * sum(self._bytes), dtype=torch.uint8, device=device)
        filled, begin = -(-self.length // PANEL), 0
        for size in self._bytes:
            old = self.panels[:, self.capacity * begin : self.capacity * begin + filled * size] if filled else None
            if old is not None:
                grown[:, capacity * begin : capacity * begin + filled * size] = old
            begin += size
        self.panels, self.capacity = grown, capacity

    def _of_head(self, h: int) -> Int[Tensor, "batch bytes"]:
        begin = self.capacity * sum(self._bytes[:h])
        return self.panels[:, begin : begin + self.capacity * self._bytes[h]]

    def _where(self, h: int, first: int, last: int) -> Int[Tensor, "count codes"]:
        """Where in the panels of a head the codes of keys are."""
        keys, d = torch.arange(first, last), torch.arange(self._codes[h])
        place = PLACES[keys % PANEL][:, None]
        within = (d // 2 * 2 + place // 16) * 32 + place % 16 * 2 + d % 2
        return (keys // PANEL * self._bytes[h])[:, None] + within

    def _write(
        self, codes: Int[Tensor, "batch heads count codes"], always: Bool[Tensor, "batch heads count"] | None = None
    ) -> None:
        """Put the codes of new keys where the kernels would. `always`: those that every query shall look at."""
        last = self.length + codes.shape[2]
        for h, count in enumerate(self._codes):
            if not count:
                continue
            panels, own = self._of_head(h), codes[:, h, :, :count]
            panels[:, -(-self.length // PANEL) * self._bytes[h] : -(-last // PANEL) * self._bytes[h]] = 0
            panels[:, self._where(h, self.length, last)] = own.contiguous().view(torch.uint8)
            keys = torch.arange(self.length, last)
            start = keys // PANEL * self._bytes[h] + PANEL * count + 2 * PLACES[keys % PANEL]
            sums = (-64 * own.to(torch.int16).sum(-1)).to(torch.int16).contiguous()
            if always is not None:
                sums[always[:, h]] = ALWAYS
            panels[:, start[:, None] + torch.arange(2)] = sums.view(torch.uint8).view(*sums.shape, 2)

    def _cut(self, points: Tensor) -> Tensor:
        """Points with nothing past the rank of a head."""
        inside = torch.arange(points.shape[-1], device=points.device) < self.ranks.to(points.device)[:, None, None]
        return torch.where(inside, points, 0.0)[..., : self._width]
