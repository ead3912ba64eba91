"""One call in the kernels' terms: tiles, tables and tuples, forward and backward.

Imported where a call is run, because it imports Triton.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...core.solving import EDGE
from ..call import Call
from .backward import of_keys, of_queries
from .forward import attend, look
from .membership import Kept, Seen, Vectors
from .tables import Tile, compile_options, kept_of, seen_of
from .tiles import Lists, known, listed

__all__ = ["Tile", "run", "tile_for"]

# Steps to a threshold: Newton's take a handful, and the bracket of α above 2 is halved until float32 ends.
MOST_STEPS = 40
# Kinds of pieces that can be asked of the pairs of a large tile without a register spilled.
FEW_KINDS = 2
# Registers that a thread may have: the assembler would rather spill some than have fewer tiles at once, unless it is
# told. How many leave none spilled was found by trying (docs/gpu.md): where much is asked of a pair, as many as the
# assembler likes.
MOST_REGISTERS, MOST_IN_SMALL_TILES = 248, 240
# Numbers of a vector that are multiplied at a time in half precision, and of long ones in float32, whose products are
# three; of short ones half: with a quarter, the assembler unrolls the loop and spills again.
HALF_PART, PART = 128, 16


def tile_for(width: int, bytes_each: int, kinds: int) -> Tile:
    """What fits into registers: vectors of `width` numbers of so many bytes, and a graph with so many kinds of pieces.

    Long vectors are multiplied in parts; what is added up of their values stays whole, and makes tiles smaller.
    """
    few, short = kinds <= FEW_KINDS, width <= 64
    if bytes_each > 2:
        part = max(PART, triton.next_power_of_2(width) // 2) if short else PART
        return Tile(16, 16, 8, 1, MOST_IN_SMALL_TILES, part)
    return Tile(64 if few and short else 32, 32, 8, 1, MOST_REGISTERS if few else None, HALF_PART)


class _Listing(NamedTuple):
    """`Lists` for the kernels: where the list of a sequence and a head begins, and its marks."""

    offsets: Tensor
    tiles: Tensor
    query_tiles: int
    batch: int
    head: int
    live_batch: int
    live_head: int
    query_order: Tensor | None
    key_order: Tensor | None


class _Back(NamedTuple):
    """The same by key tiles."""

    offsets: Tensor
    tiles: Tensor
    entries: Tensor
    key_tiles: int


def run(call: Call) -> Tensor:
    """Attention over the call's graph; all pairs where it has none.

    It waits for the device where lists of tiles are made (`tiles.listed`), and nowhere else.
    """
    if 0 in (*call.grid.shape, call.v.shape[-1]):
        # Nothing to compute; zeros with a gradient all the same.
        return call.q.new_zeros(*call.q.shape[:3], call.v.shape[-1]) + 0 * (call.q.sum() + call.k.sum() + call.v.sum())
    out: Tensor = _Attention.apply(call.q, call.k, call.v, call.alpha, _Problem.of(call))
    return out


@dataclass(frozen=True)
class _Problem:
    """What of a call is not a tensor with a gradient."""

    tile: Tile
    lists: Lists
    kept: Kept
    seen: Seen
    scale: float
    groups: int
    power: int
    precision: str

    @staticmethod
    def of(call: Call) -> _Problem:
        grid, pieces = call.grid, known(call.pairs)
        kinds = len({type(piece) for piece in pieces})
        tile = tile_for(max(call.q.shape[-1], call.v.shape[-1]), call.q.element_size(), kinds)
        lists = listed(grid, pieces, tile.rows, tile.columns)
        power = {1.5: 2, 2.0: 1}.get(call.alpha, 0) if isinstance(call.alpha, float) else 0
        # Three products of shorter numbers are as good as one of float32, on tensor cores.
        precision = "tf32x3" if call.q.dtype == torch.float32 else "tf32"
        kept = kept_of(pieces, grid, lists, tile)
        return _Problem(tile, lists, kept, seen_of(grid), call.scale, call.groups, power, precision)

    @property
    def options(self) -> dict[str, Any]:
        """How kernels are compiled. Without fused steps sums are rounded as everywhere else."""
        rows, columns, warps, stages, registers, part = self.tile
        meant = {"rows": rows, "columns": columns, "part": part, "power": self.power, "precision": self.precision}
        return meant | compile_options(warps, stages, registers)

    @property
    def listing(self) -> _Listing:
        lists, heads, entries = self.lists, self.seen.heads, self.lists.entries
        each_batch, each_head = lists.batch > 1, lists.heads > 1
        # Marks are of every sequence and head, also where they share a list.
        live = (0 if each_batch else entries * (1 if each_head else heads), 0 if each_head else entries)
        return _Listing(
            lists.offsets, lists.tiles, lists.query_tiles, lists.heads * each_batch, int(each_head), *live,
            lists.query_order, lists.key_order,
        )  # fmt: skip

    def marks(self, batch: int) -> int:
        """How many marks there are."""
        lists = self.lists
        return lists.entries * (batch // lists.batch) * (self.seen.heads // lists.heads)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        batch, heads, n, _ = q.shape
        q, k, v = (_straight(x) for x in (q, k, v))
        out = torch.empty(batch, heads, n, v.shape[-1], dtype=q.dtype, device=q.device)
        tops, taus, totals = (torch.empty(batch, heads, n, dtype=torch.float32, device=q.device) for _ in range(3))
        live = torch.empty(max(self.marks(batch), 1), dtype=torch.int8, device=q.device)
        strengths, listing, programs = self.strengths(alpha, q), self.listing, (self.lists.query_tiles, batch * heads)
        same = (self.seen, self.kept, listing, strengths, self.scale, self.groups)
        look[programs](_vectors(q), _vectors(k), *same, tops, taus, live, **self.options)
        attend[programs](
            *(_vectors(x) for x in (q, k, v, out)), *same, tops, taus, totals, live, MOST_STEPS, **self.options
        )
        return out, (tops, taus, totals, live)

    def backward(
        self, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, grad: Tensor, saved: tuple[Tensor, ...],
        wants_alpha: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
        tops, taus, totals, live = saved
        batch, heads = q.shape[:2]
        q, k, v, grad = (_straight(x) for x in (q, k, v, grad))
        grad_q, means = torch.empty_like(q, memory_format=torch.contiguous_format), torch.empty_like(tops)
        alphas = torch.empty_like(tops) if wants_alpha else None
        # Heads that share keys are added up in one program, unless each has its keys in an order of its own.
        together = self.groups if self.lists.key_order is None else 1
        kind = k.dtype if together == self.groups else torch.float32
        grad_k, grad_v = (
            torch.empty(batch, heads // together, *x.shape[2:], dtype=kind, device=x.device) for x in (k, v)
        )
        strengths, listing = self.strengths(alpha, q), self.listing
        inputs = tuple(_vectors(x) for x in (q, k, v, grad))
        of_queries[(self.lists.query_tiles, batch * heads)](
            *inputs, _vectors(grad_q), self.seen, self.kept, listing, strengths, self.scale, self.groups, tops, taus,
            totals, means, alphas, live, **self.options,
        )  # fmt: skip
        of_keys[(self.lists.key_tiles, batch * heads // together)](
            *inputs, _vectors(grad_k), _vectors(grad_v), self.seen, self.kept, listing,
            _Back(*self.lists.back, self.lists.key_tiles), strengths, self.scale, self.groups, together, tops, taus,
            totals, means, live, **self.options,
        )  # fmt: skip
        if together < self.groups:
            grad_k, grad_v = (x.unflatten(1, (-1, self.groups)).sum(2).to(k.dtype) for x in (grad_k, grad_v))
        return grad_q, grad_k, grad_v, None if alphas is None else alphas.sum((0, 2))

    def strengths(self, alpha: float | Tensor, like: Tensor) -> Tensor:
        """Of each head a = α − 1, 1/a, and what x − τ has to exceed for a weight: as `solving.edge` says."""
        a = torch.empty(self.seen.heads, dtype=torch.float32, device=like.device)
        a = (a.copy_(alpha.detach()) if isinstance(alpha, Tensor) else a.fill_(alpha)) - 1
        edge = (torch.pow(float(self.seen.m), -a) / 2).clamp(max=EDGE * torch.finfo(torch.float32).eps)
        return torch.stack([a, 1 / a, torch.where(a >= 1, edge, 0.0)], -1).contiguous()


class _Attention(torch.autograd.Function):
    """Saves the inputs, three numbers of each row, and a mark of each tile."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, alpha: float | Tensor, problem: _Problem) -> Tensor:
        out, saved = problem.forward(q, k, v, alpha)
        ctx.save_for_backward(q, k, v, *saved, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.problem, ctx.alpha = problem, None if isinstance(alpha, Tensor) else alpha
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *saved = ctx.saved_tensors
        alpha = saved.pop() if ctx.alpha is None else ctx.alpha
        found = ctx.problem.backward(q, k, v, alpha, grads[0], tuple(saved), ctx.needs_input_grad[3])
        grad_q, grad_k, grad_v, grad_alpha = found
        return grad_q, grad_k, grad_v, None if grad_alpha is None else grad_alpha.to(alpha.dtype), None


def _straight(x: Tensor) -> Tensor:
    """Vectors whose numbers lie one after the other, those of a head no farther apart than 32 bits can say."""
    x = x.detach()
    return x if x.stride(-1) == 1 and x.shape[2] * x.stride(2) < 1 << 31 else x.contiguous()


def _vectors(x: Tensor) -> Vectors:
    size = x.shape[-1]
    width = max(16, triton.next_power_of_2(size))
    batch, head, token, _ = x.stride()
    return Vectors(x, batch, head, token, tl.constexpr(size), tl.constexpr(width))
