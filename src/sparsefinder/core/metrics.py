"""How good a predicted graph is: recall, precision, sparsity and what rows they miss, per head and over many batches.

Everything follows from a few counts for each (sample, head); `ratios` says how. *Macro* averages the ratios of all
(sample, layer, head), as the paper does; *micro* pools the counts first.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError, check_type
from .graph import Graph
from .ratios import counted_as, every_ratio, mean

__all__ = ["Counts", "GraphMetrics", "Scores", "count"]

Degrees = Int[Tensor, "batch heads n"]


@dataclass(frozen=True, eq=False)
class Counts:
    """Pairs and queries of predicted and gold graphs, for each (sample, head)."""

    visible: Int[Tensor, "samples heads"]
    predicted: Int[Tensor, "samples heads"]
    gold: Int[Tensor, "samples heads"]
    hits: Int[Tensor, "samples heads"]
    queries: Int[Tensor, "samples heads"]
    complete: Int[Tensor, "samples heads"]
    empty: Int[Tensor, "samples heads"]

    def ratios(self) -> dict[str, Float[Tensor, "samples heads"]]:
        """Recall, precision, sparsity and the others by name; NaN where there is nothing to divide by."""
        return every_ratio({field.name: getattr(self, field.name) for field in fields(self)})


def count(predicted: Graph, gold: Graph) -> Counts:
    """Compare two graphs, row by row. A query that may look at nothing counts for nothing."""
    for name, graph in (("predicted", predicted), ("gold", gold)):
        check_type(name, graph, Graph, "a Graph, as finders and gold_graph return it")
    if predicted.grid.shape != gold.grid.shape:
        raise InputError("gold", f"a graph for {gold.grid.shape}", f"one like the predicted: {predicted.grid.shape}")
    visible = predicted.grid.degrees()[:, None].expand(-1, predicted.grid.heads, -1)
    of_predicted, of_gold, of_hits = _degrees(predicted, gold)
    asks = visible > 0
    return Counts(
        visible=visible.sum(-1),
        predicted=of_predicted.sum(-1),
        gold=of_gold.sum(-1),
        hits=of_hits.sum(-1),
        queries=asks.sum(-1),
        complete=((of_hits == of_gold) & asks).sum(-1),
        empty=((of_predicted == 0) & asks).sum(-1),
    )


def _degrees(predicted: Graph, gold: Graph) -> tuple[Degrees, Degrees, Degrees]:
    """How many keys each query has in either graph, and in both."""
    if not predicted.by_matrix:
        return predicted.degrees(), gold.degrees(), (gold & predicted).degrees()
    parts = []
    for queries in predicted.chunks():
        one, other = predicted.mask(queries), gold.mask(queries)
        parts.append(torch.stack([each.sum(-1) for each in (one, other, one & other)]))
    found = torch.cat(parts, -1) if parts else predicted.grid.degrees().new_zeros(3, *predicted.grid.shape[:3])
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class Scores:
    """The ratios of `every_ratio`, averaged."""

    recall: float
    precision: float
    sparsity: float
    gold_sparsity: float
    full_recall: float
    empty_rows: float


class GraphMetrics:
    """Collects counts over batches and layers.

    >>> metrics = GraphMetrics()
    >>> metrics.update(Window(11)(q, k), gold_graph(q, k), layer=0)
    >>> metrics.compute().recall

    empty: what a ratio of nothing counts as in a macro average (the recall of a head without gold pairs, say): left out
    ("skip"), or counted as "one" or "zero".
    """

    def __init__(self, empty: str = "skip") -> None:
        counted_as(empty)
        self.empty = empty
        self._counts: dict[Hashable, list[Counts]] = {}

    def update(self, predicted: Graph, gold: Graph, layer: Hashable = 0) -> Counts:
        """Add a batch of one layer, and return its counts."""
        counts = count(predicted, gold)
        self._counts.setdefault(layer, []).append(counts)
        return counts

    def compute(self, average: str = "macro") -> Scores:
        """The ratios over everything seen: "macro" or "micro"."""
        everything = [self._layer(layer) for layer in self._counts]
        if not everything:
            raise InputError("metrics", "no batch yet", "at least one update() before compute()")
        if average == "micro":
            pooled = Counts(**{
                field.name: torch.stack([getattr(counts, field.name).sum() for counts in everything]).sum()[None, None]
                for field in fields(Counts)
            })  # fmt: skip
            return Scores(**{name: ratio.item() for name, ratio in pooled.ratios().items()})
        if average != "macro":
            raise InputError("average", repr(average), '"macro" or "micro"')
        ratios = [counts.ratios() for counts in everything]
        return Scores(**{
            name: mean(torch.cat([each[name].flatten() for each in ratios]), empty=self.empty).item()
            for name in ratios[0]
        })  # fmt: skip

    def by_head(self, ratio: str = "recall") -> dict[Hashable, Float[Tensor, " heads"]]:
        """One ratio for each layer and head: the mean over samples."""
        names = [field.name for field in fields(Scores)]
        if ratio not in names:
            raise InputError("ratio", repr(ratio), f"one of {', '.join(names)}")
        return {layer: mean(self._layer(layer).ratios()[ratio], 0, self.empty) for layer in self._counts}

    def _layer(self, layer: Hashable) -> Counts:
        parts = self._counts[layer]
        return Counts(
            **{field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Counts)}
        )
