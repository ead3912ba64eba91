"""What a finder is: a small frozen dataclass, called on queries and keys, returning the graph it predicts.

A method is a subclass in a file of its own, which says everything about it: `about` (names, paper, family, dial), its
parameters as fields, `find`, and `fit` if it learns from data. Position, padding, causality and the decoding offset
come in the grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from operator import or_
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.graph import Graph
from ..core.index import KeyIndex
from ..core.layout import Grid, Layout, check_layout
from ..core.moving import moved
from ..errors import InputError, check_type
from ..learning.projection import Projection
from ..learning.sample import Sample, batches, mapped
from .about import About, Dial, Place
from .how import Fitting
from .reading import of_keys

__all__ = [
    "Assigned", "Cascade", "Finder", "Fitting", "Keys", "Learned", "Queries", "Several", "Union", "roles",
]  # fmt: skip

Queries = Float[Tensor, "batch heads n d"]
# Of each head; where a finder is `grouped`, they may come once for the heads that share them.
Keys = Float[Tensor, "batch kv_heads m d"]
# The least settings of a dial, for all keys of some queries.
Settings = Float[Tensor, "batch heads count m"]
# Clusters of queries, clusters of keys, and how many there are.
Assigned = tuple[Int[Tensor, "batch heads n"], Int[Tensor, "batch heads m"], int]


@dataclass(frozen=True)
class Finder(ABC):
    """Predicts which pairs matter. `a | b` predicts what either does, `a & b` what b finds among what a does."""

    about: ClassVar[About]

    @abstractmethod
    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        """The predicted graph. A finder with a field `projection` gets queries and keys as that maps them."""

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        """The predicted graph of these queries and keys.

        >>> Window(11)(q, k, Layout(causal=True)).sparsity()
        """
        check_layout(layout)
        return self.on(q, k, layout.of(q, k))

    def on(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        """The same, where the grid is there already."""
        self._check(grid)
        return self.find(*self.compared(q, k), grid)

    def compared(self, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
        """Queries and keys where they are compared: projected, or as they are."""
        projection: Projection | None = getattr(self, "projection", None)
        return (q, k) if projection is None else (projection.of_queries(q), projection.of_keys(k))

    @property
    def causal_safe(self) -> bool:
        """Whether the keys of a query never depend on tokens after it, so that decoding step by step is possible."""
        return self.query_wise

    @property
    def query_wise(self) -> bool:
        """Whether the keys of a query never depend on other queries, which are not there in a decoding step."""
        return True

    @property
    def grouped(self) -> bool:
        """Whether heads that share keys need not have them each: maps of keys go from those of a group to each head."""
        return getattr(self, "projection", None) is not None

    def index(self, k: Keys, exact: bool = False) -> KeyIndex | None:
        """What it knows of keys, kept while decoding; `exact` rules nothing out that gets weight. None: it has none."""
        return None

    @property
    def ready(self) -> bool:
        """Whether everything is there that it has to learn."""
        return True

    @property
    def dial(self) -> Dial | None:
        """What orders its graphs; None where nothing does."""
        return self.about.dials[0] if self.about.dials else None

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        """The least setting of the dial with which each pair of these queries is predicted; infinite for never.

        Queries and keys come as in `find`, all of them. What is said of pairs that may not be seen does not matter.
        """
        raise InputError("finder", self.about.name, "a method with a dial")

    def turned(self, setting: int | float | Tensor) -> Finder:
        """The same with another setting of its dial: one, or one per head."""
        dial = self.dial
        if dial is None:
            raise InputError("finder", self.about.name, "a method with a dial")
        if dial.whole:
            setting = setting.long() if isinstance(setting, Tensor) else int(setting)
        return replace(self, **{dial.field: setting})

    def variants(self) -> Sequence[Finder]:
        """Itself, or what to choose among for each head in its place, where a recall is wanted."""
        return (self,)

    def price(self, density: Float[Tensor, " heads"], m: int, d: int) -> Float[Tensor, " heads"]:
        """What a graph of this density costs each head, in units of all pairs with m keys of d dimensions."""
        return density

    @classmethod
    def joined(cls, options: Sequence[Finder], which: Sequence[int]) -> Finder | None:
        """The finder of this method that has for each head the option of this number, if there can be one."""
        return None

    def assigned(self, q: Queries, k: Keys) -> Assigned | None:
        """The cluster of each query and of each key, given as in `find`; None where there are none to look at."""
        return None

    def to(self, device: str | torch.device) -> Finder:
        """The same with all that it has learned on a device, for queries and keys that are there.

        >>> fitted.to("cuda")
        """
        return moved(self, device)

    def at(self, place: Place) -> Finder:
        """The same for one attention layer: with its α, or with draws of its own."""
        return self.apart(place)

    def apart(self, place: Place) -> Finder:
        """The same with draws of its own for one attention layer, as one finder for many layers needs."""
        return self

    def cost(self, n: int, m: int, d: int) -> float:
        """Multiplications that predicting takes per head, to set beside the n · m · d of the scores themselves."""
        return 0.0

    def reads(self, n: int, m: int, d: int) -> float:
        """Bytes about m keys that finding reads for a query of a head, the mean of n, to set beside the 4 · m · d of
        the keys themselves in float32.

        What is made of keys as they come is kept, and making it is no reading. Codes and hashes have their bits; all
        other numbers, which cluster or bucket a key is in among them, 4 bytes. Centroids that a query is compared with
        stand for keys, and count; maps and the planes of hashes do not. What stands for several queries, as their mean
        does, reads once for all of them.
        """
        return 0.0

    def among(self, first: Graph, q: Queries, k: Keys) -> Graph:
        """What of a graph this finder predicts too: the second stage of a cascade."""
        return first & self.on(q, k, first.grid)

    def __or__(self, other: Finder) -> Union:
        return Union((*_parts(Union, self), *_parts(Union, other)))

    def __and__(self, other: Finder) -> Cascade:
        return Cascade((*_parts(Cascade, self), *_parts(Cascade, other)))

    @cached_property
    def _heads(self) -> int | None:
        """The heads that it was made for: every tensor of a finder has one entry per head."""
        values = (getattr(self, each.name) for each in fields(self))
        tensors = (value.queries if isinstance(value, Projection) else value for value in values)
        return next((len(each) for each in tensors if isinstance(each, Tensor)), None)

    def _check(self, grid: Grid) -> None:
        """Raise if it was not fitted, or is asked to decode and cannot. A whole sequence may be looked at, masked."""
        if not self.ready:
            name = self.about.name
            want = f'Sparsefinder.fit(traces, "{name}", …), which fits it to every layer; or its own fit(samples) first'
            raise InputError("finder", f"{name}, which was not fitted", want)
        if self._heads is not None and self._heads != grid.heads:
            raise InputError("q", f"{grid.heads} heads", f"{self._heads}, as this {self.about.name} was made for")
        offset = grid.layout.query_offset
        if not (bool((offset != 0).any()) if isinstance(offset, Tensor) else offset != 0):
            return
        if grid.layout.causal and not self.causal_safe:
            got = f"{type(self).__name__}, whose choice of keys depends on tokens after the query"
            raise InputError("finder", got, "one with causal_safe, to decode step by step")
        if not grid.layout.causal and not self.query_wise:
            got = f"{type(self).__name__}, whose choice of keys depends on other queries"
            raise InputError("finder", got, "one with query_wise, for cross-attention step by step")


@dataclass(frozen=True)
class Learned(Finder):
    """A finder that has something to learn from queries and keys of training data."""

    @abstractmethod
    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> Learned:
        """The same, with what it has learned from batches of one layer: read as often as it takes, never kept."""

    @property
    def ready(self) -> bool:
        # Without a projection, queries and keys are compared as they are.
        learned = [name for name, role in roles(type(self)) if role == "learned" and name != "projection"]
        return all(getattr(self, name) is not None for name in learned)

    def mapped(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """The samples where they are compared."""
        return (mapped(sample, getattr(self, "projection", None)) for sample in batches(samples))


@dataclass(frozen=True)
class Several(Finder):
    """A finder that is made of others."""

    finders: tuple[Finder, ...]

    @property
    def causal_safe(self) -> bool:
        return all(each.causal_safe for each in self.finders)

    @property
    def query_wise(self) -> bool:
        return all(each.query_wise for each in self.finders)

    @property
    def grouped(self) -> bool:
        return all(each.grouped for each in self.finders)

    @property
    def ready(self) -> bool:
        return all(each.ready for each in self.finders)

    def at(self, place: Place) -> Several:
        return type(self)(tuple(each.at(place) for each in self.finders))

    def apart(self, place: Place) -> Several:
        parts = tuple(each.apart(place) for each in self.finders)
        # Indexes are kept for the finder that they were made by.
        same = all(one is other for one, other in zip(parts, self.finders, strict=True))
        return self if same else type(self)(parts)


@dataclass(frozen=True)
class Union(Several):
    """The union of what several finders predict."""

    about: ClassVar[About] = About("union", "union", "reference")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return reduce(or_, (each.on(q, k, grid) for each in self.finders))

    def cost(self, n: int, m: int, d: int) -> float:
        return sum(each.cost(n, m, d) for each in self.finders)

    def reads(self, n: int, m: int, d: int) -> float:
        return sum(each.reads(n, m, d) for each in self.finders)


@dataclass(frozen=True)
class Cascade(Several):
    """What the first finder predicts, and of it what the next one finds, and so on.

    >>> Probe(32, 8).fit(samples) & Sketch(16, slack=2.0).fit(samples)  # the best scores in the best clusters
    """

    about: ClassVar[About] = About("cascade", "cascade", "reference")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        found = self.finders[0].on(q, k, grid)
        for each in self.finders[1:]:
            found = each.among(found, q, k)
        return found

    def cost(self, n: int, m: int, d: int) -> float:
        """At most: what the first stage leaves out costs the others nothing."""
        return min(sum(each.cost(n, m, d) for each in self.finders), float(n) * m * d)

    def reads(self, n: int, m: int, d: int) -> float:
        """At most, as with cost."""
        return min(sum(each.reads(n, m, d) for each in self.finders), of_keys(m, d))


def roles(kind: type[Finder]) -> list[tuple[str, str]]:
    """The fields of a method and what each is for: "use", "fit", "maps", "learned" or "run"."""
    return [(each.name, each.metadata.get("role", "use")) for each in fields(kind)]


def _parts(kind: type[Several], one: Finder) -> tuple[Finder, ...]:
    sign = "|" if kind is Union else "&"
    check_type(f"finders of {sign}", one, Finder, f"a finder on either side: Window(11) {sign} GlobalTokens(1)")
    return one.finders if isinstance(one, kind) else (one,)
