"""Which pairs a head may look at before anybody predicts anything: causality, padding, the place of the queries."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError, check_type, wrong_type

__all__ = ["Grid", "Layout", "check_layout", "check_vectors"]


@dataclass(frozen=True, eq=False)
class Layout:
    """How queries and keys lie in their sequences. Padding is at the end; `hf.masking` turns other batches round.

    >>> Layout(causal=True, query_offset=9)  # decoding: the one query stands at position 9

    causal: a query sees no key after its own position.
    key_lengths: how many keys of each sequence are real; all of them if None.
    query_offset: the position of the first query among the keys, one number or one per sequence.
    query_lengths: how many queries of each sequence are real. The others see nothing, get zeros and count for nothing.
    """

    causal: bool = False
    key_lengths: Int[Tensor, " batch"] | None = None
    query_offset: int | Int[Tensor, " batch"] = 0
    query_lengths: Int[Tensor, " batch"] | None = None

    def __post_init__(self) -> None:
        check_type("causal", self.causal, bool, "True or False")
        _check_lengths("key_lengths", self.key_lengths)
        _check_lengths("query_lengths", self.query_lengths)
        offset = self.query_offset
        if type(offset) is int or (isinstance(offset, Tensor) and _is_whole(offset)):
            return
        if isinstance(offset, bool) or not isinstance(offset, Integral):
            got = f"a tensor of {offset.dtype}" if isinstance(offset, Tensor) else repr(offset)
            raise InputError("query_offset", got, "a whole number, or a tensor of whole numbers, one per sequence")
        object.__setattr__(self, "query_offset", int(offset))

    def __repr__(self) -> str:
        return f"Layout({', '.join(self.words)})"

    @property
    def words(self) -> list[str]:
        """What is not as in plain attention: causal, ragged, queries from 9."""
        found = ["causal"] if self.causal else []
        if self.key_lengths is not None or self.query_lengths is not None:
            found.append("ragged")
        offset = self.query_offset
        if isinstance(offset, Tensor) and len(offset):
            found.append("queries from {}…{}".format(*offset.aminmax()).replace("-", "−"))
        elif not isinstance(offset, Tensor) and offset:
            found.append(f"queries from {offset}".replace("-", "−"))
        return found

    @property
    def ragged(self) -> bool:
        """Whether sequences differ, so that it has tensors."""
        return self.key_lengths is not None or self.query_lengths is not None or isinstance(self.query_offset, Tensor)

    def part(self, first: int, last: int) -> Layout:
        """That of the queries from one to before another, and the same keys."""
        lengths = None if self.query_lengths is None else (self.query_lengths - first).clamp(0, last - first)
        return Layout(self.causal, self.key_lengths, self.query_offset + first, lengths)

    def of(self, q: Float[Tensor, "batch heads n _"], k: Float[Tensor, "batch _ m _"]) -> Grid:
        """The grid of these queries and keys."""
        check_vectors("q", q)
        check_vectors("k", k)
        return Grid(q.shape[0], q.shape[1], q.shape[2], k.shape[2], self, q.device)


@dataclass(frozen=True, eq=False)
class Grid:
    """The [batch, head, query, key] positions that a graph chooses from: sizes, and the layout within them."""

    batch: int
    heads: int
    n: int
    m: int
    layout: Layout
    device: torch.device

    def __post_init__(self) -> None:
        layout = self.layout
        check_layout(layout)
        if not layout.ragged:
            return
        for name, lengths, most in (
            ("layout.key_lengths", layout.key_lengths, self.m),
            ("layout.query_lengths", layout.query_lengths, self.n),
        ):
            if lengths is None:
                continue
            if lengths.shape != (self.batch,):
                raise InputError(
                    name, f"shape {tuple(lengths.shape)}", f"one length per sequence: shape ({self.batch},)"
                )
            if bool((lengths < 0).any() or (lengths > most).any()):
                raise InputError(name, f"lengths {lengths.tolist()}", f"lengths from 0 to {most}")
        offset = layout.query_offset
        if isinstance(offset, Tensor) and offset.shape != (self.batch,):
            got = f"a tensor of shape {tuple(offset.shape)}"
            raise InputError("layout.query_offset", got, f"one number, or one per sequence: shape ({self.batch},)")
        # Everything below indexes with tensors of the grid's own device.
        moved = Layout(
            layout.causal,
            None if layout.key_lengths is None else layout.key_lengths.to(self.device),
            offset.to(self.device) if isinstance(offset, Tensor) else offset,
            None if layout.query_lengths is None else layout.query_lengths.to(self.device),
        )
        object.__setattr__(self, "layout", moved)

    def __repr__(self) -> str:
        return f"Grid({self.words})"

    @property
    def words(self) -> str:
        """Sizes and layout: 2 × 12 heads, 512 × 512, causal."""
        return ", ".join([f"{self.batch} × {self.heads} heads", f"{self.n} × {self.m}", *self.layout.words])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.n, self.m

    def unravel(self, rows: Int[Tensor, "..."]) -> tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]:
        """Sequence, head and query of rows, which are numbered in that order."""
        head, i = rows // max(self.n, 1), rows % max(self.n, 1)
        return head // max(self.heads, 1), head % max(self.heads, 1), i

    def position(self, b: Int[Tensor, "..."], i: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """Where query `i` of sequence `b` stands among the keys."""
        offset = self.layout.query_offset
        return i + (offset[b] if isinstance(offset, Tensor) else offset)

    def positions(self) -> Int[Tensor, "batch n"]:
        """Where every query stands among the keys."""
        b = torch.arange(self.batch, device=self.device)[:, None]
        return self.position(b, torch.arange(self.n, device=self.device)).expand(self.batch, self.n)

    def visible(self, b: Int[Tensor, "..."], i: Int[Tensor, "..."], j: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        """Whether query `i` of sequence `b` may look at key `j`."""
        layout = self.layout
        seen = (j >= 0) & (j < self.m)
        if layout.key_lengths is not None:
            seen = seen & (j < layout.key_lengths[b])
        if layout.query_lengths is not None:
            seen = seen & (i < layout.query_lengths[b])
        if layout.causal:
            seen = seen & (j <= self.position(b, i))
        return seen

    def degrees(self) -> Int[Tensor, "batch n"]:
        """How many keys each query may look at."""
        layout = self.layout
        b = torch.arange(self.batch, device=self.device)[:, None]
        i = torch.arange(self.n, device=self.device)[None, :]
        most = torch.full_like(b, self.m) if layout.key_lengths is None else layout.key_lengths[:, None]
        seen = most.expand(self.batch, self.n)
        if layout.causal:
            seen = torch.minimum(seen, (self.position(b, i) + 1).clamp(min=0))
        if layout.query_lengths is not None:
            seen = torch.where(i < layout.query_lengths[:, None], seen, 0)
        return seen

    def real_keys(self) -> Bool[Tensor, "batch m"]:
        """Which keys are not padding."""
        j = torch.arange(self.m, device=self.device).expand(self.batch, -1)
        lengths = self.layout.key_lengths
        return torch.ones_like(j, dtype=torch.bool) if lengths is None else j < lengths[:, None]

    def same_as(self, other: Grid) -> bool:
        """Whether both have the same sizes and let the same pairs be seen from the same positions."""
        if self.shape != other.shape:
            return False
        mine, others = self.layout, other.layout
        return mine is others or (
            mine.causal == others.causal
            and _same(mine.query_offset, others.query_offset)
            and _same(mine.key_lengths, others.key_lengths)
            and _same(mine.query_lengths, others.query_lengths)
        )


def check_vectors(name: str, vectors: object) -> None:
    """Raise unless these are vectors for every sequence, head and position, as attention takes queries and keys."""
    want = "a tensor of four dimensions: (batch, heads, length, size)"
    if not isinstance(vectors, Tensor):
        raise wrong_type(name, vectors, want)
    if vectors.ndim != 4:
        raise InputError(name, f"a tensor of shape {tuple(vectors.shape)}", want)
    if not vectors.is_floating_point():
        raise InputError(name, f"a tensor of {vectors.dtype}", "floating-point numbers")


def check_layout(layout: object) -> None:
    """Raise unless this is a layout."""
    check_type("layout", layout, Layout, "a Layout, such as Layout(causal=True)")


def _check_lengths(name: str, lengths: object) -> None:
    if lengths is None or (isinstance(lengths, Tensor) and _is_whole(lengths)):
        return
    want = "a tensor of whole numbers, one per sequence, or None where all are real"
    if isinstance(lengths, Tensor):
        raise InputError(name, f"a tensor of {lengths.dtype}", want)
    raise wrong_type(name, lengths, want)


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool)


def _same(one: int | Tensor | None, two: int | Tensor | None) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return torch.equal(one, two)
    return type(one) is type(two) and one == two
