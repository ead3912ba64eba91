"""What a finder is: a small frozen dataclass, called on queries and keys, returning the graph it predicts.

To add one: a file beside this one with a subclass of `Finder`, and a line in `FINDERS`. Its parameters are the fields
of the dataclass; position, padding, causality and the decoding offset come in the layout.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import reduce
from importlib import import_module
from operator import or_

from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import InputError
from ..learning.projection import Projection

__all__ = ["FINDERS", "Finder", "Keys", "Queries", "Union", "finder", "finder_class", "projected", "refuse_decoding"]

Queries = Float[Tensor, "batch heads n d"]
Keys = Float[Tensor, "batch heads m d"]

# The name of each finder in recipes and on the command line, and where its class is.
FINDERS = {
    "bigbird": ".big_bird.BigBird",
    "block-centroids": ".block_centroids.BlockCentroids",
    "block-topk": ".block_top_k.BlockTopK",
    "distance": ".distance.Distance",
    "full": ".full.Full",
    "global": ".global_tokens.GlobalTokens",
    "kmeans": ".k_means.KMeans",
    "longformer": ".longformer.Longformer",
    "oracle": ".oracle.Oracle",
    "probe": ".probe.Probe",
    "quantization": ".quantization.Quantization",
    "random": ".random_blocks.RandomBlocks",
    "reformer": ".reformer.Reformer",
    "routing": ".routing.Routing",
    "sketch": ".sketch.Sketch",
    "strided": ".strided.Strided",
    "topk": ".top_k.TopK",
    "window": ".window.Window",
}


@dataclass(frozen=True)
class Finder(ABC):
    """Predicts which pairs matter. `a | b` predicts what either does."""

    @abstractmethod
    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        """The predicted graph of these queries and keys."""

    @property
    def causal_safe(self) -> bool:
        """Whether the keys of a query never depend on tokens after it, so that decoding step by step is possible."""
        return True

    def cost(self, n: int, m: int, d: int) -> float:
        """Multiplications that predicting takes for one head, to set beside the n · m · d of the scores themselves."""
        return 0.0

    def __or__(self, other: Finder) -> Union:
        return Union((*_parts(self), *_parts(other)))


@dataclass(frozen=True)
class Union(Finder):
    """The union of what several finders predict."""

    finders: tuple[Finder, ...]

    def __call__(self, q: Queries, k: Keys, layout: Layout = Layout()) -> Graph:
        return reduce(or_, (each(q, k, layout) for each in self.finders))

    @property
    def causal_safe(self) -> bool:
        return all(each.causal_safe for each in self.finders)

    def cost(self, n: int, m: int, d: int) -> float:
        return sum(each.cost(n, m, d) for each in self.finders)


def finder(name: str, **parameters: object) -> Finder:
    """A finder by its name in `FINDERS`.

    >>> finder("window", size=11) | finder("global", count=1)
    """
    kind = finder_class(name)
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        takes = f"takes {', '.join(known)}" if known else "takes no parameters"
        raise InputError(f"parameters of {name}", ", ".join(unknown), f"only what it takes: {name} {takes}")
    return kind(**parameters)


def finder_class(name: str) -> type[Finder]:
    """The class of a finder by its name in `FINDERS`."""
    if name not in FINDERS:
        near = difflib.get_close_matches(name, FINDERS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError("finder", repr(name) + hint, f"one of {', '.join(sorted(FINDERS))}")
    module, _, attribute = FINDERS[name].rpartition(".")
    return getattr(import_module(module, __package__), attribute)


def projected(projection: Projection | None, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
    """Queries and keys where a finder compares them: projected, or as they are."""
    return (q, k) if projection is None else (projection.of_queries(q), projection.of_keys(k))


def refuse_decoding(finder: Finder, layout: Layout) -> None:
    """Raise if a finder that looks ahead is asked to decode. A whole sequence it may have, masked: for comparison."""
    offset = layout.query_offset
    decodes = bool((offset != 0).any()) if isinstance(offset, Tensor) else offset != 0
    if layout.causal and decodes and not finder.causal_safe:
        got = f"{type(finder).__name__}, whose choice of keys depends on tokens after the query"
        raise InputError("finder", got, "one with causal_safe, to decode step by step")


def _parts(one: Finder) -> tuple[Finder, ...]:
    return one.finders if isinstance(one, Union) else (one,)
