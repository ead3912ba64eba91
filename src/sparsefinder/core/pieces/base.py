"""What a graph asks of a piece, and what pieces are made with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..layout import Grid

__all__ = ["ByIndex", "Index", "Piece", "Truth", "most", "pick", "ramp", "words"]

Index = Int[Tensor, "..."]
Truth = Bool[Tensor, "..."]


@runtime_checkable
class Piece(Protocol):
    """What the graph asks of a piece. `b`, `h`, `i`, `j` are indices that broadcast against each other."""

    @property
    def group(self) -> int:
        """How many neighbouring queries can share one list of keys; 0 if any number of them can."""

    @property
    def uniform(self) -> bool:
        """Whether the queries of such a group have exactly the same keys, not just nearly."""

    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        """Whether the piece has the pair."""

    def bound(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Index:
        """At most how many keys `candidates` will name for each of these."""

    def candidates(self, grid: Grid, b: Index, h: Index, i: Index, rows: int) -> Int[Tensor, "count width"]:
        """The keys that any of the `rows` queries from `i` on has, for each i: −1 where there is none, in any order."""

    def mask(self, grid: Grid, queries: slice) -> Truth:
        """The pairs of these queries as a matrix, or something that broadcasts to it."""


class ByIndex(ABC):
    """A piece whose matrix is made by asking for every pair."""

    group = 0
    uniform = False

    @abstractmethod
    def contains(self, grid: Grid, b: Index, h: Index, i: Index, j: Index) -> Truth:
        """Whether the piece has the pair."""

    def mask(self, grid: Grid, queries: slice) -> Truth:
        b, h, i, j = (torch.arange(size, device=grid.device) for size in grid.shape)
        return self.contains(grid, b[:, None, None, None], h[:, None, None], i[queries, None], j)


def pick(table: Tensor, b: Index, h: Index) -> tuple[Index, Index]:
    """The indices of (b, h) in a table whose first two sizes may be 1."""
    return b * (table.shape[0] > 1), h * (table.shape[1] > 1)


def ramp(width: int, like: Tensor) -> Int[Tensor, " width"]:
    return torch.arange(width, device=like.device)


def most(counts: Tensor) -> int:
    return int(counts.amax()) if counts.numel() else 0


def words(pieces: Sequence[Piece]) -> str:
    """A union of pieces in a line; those that have no words for themselves go by the name of their class."""
    named = (str(one) if type(one).__str__ is not object.__str__ else type(one).__name__ for one in pieces)
    return " | ".join(named) or "nothing"
