"""A record: the queries and keys of one call of one attention layer, as `sparsefinder.record` collects them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ..attending import gold_graph
from ..core.graph import Graph
from ..core.layout import Layout
from ..errors import check_type
from ..finders import Finder

__all__ = ["Record"]


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

    def __repr__(self) -> str:
        batch, heads, n, d = self.q.shape
        sizes = f"{batch} sequences, {heads} heads of {d} dimensions, {n} queries, {self.k.shape[2]} keys"
        return f"Record({self.kind} layer {self.layer}: {sizes}{', causal' if self.layout.causal else ''})"

    @cached_property
    def gold(self) -> Graph:
        """The pairs that the layer really gives weight to."""
        bias = self.bias
        if self.allowed is not None:
            hidden = ~self.allowed.dense()
            bias = torch.zeros((), device=self.q.device, dtype=self.q.dtype) if bias is None else bias
            bias = bias.expand(hidden.shape).masked_fill(hidden, -torch.inf)
        return gold_graph(self.q, self.k, self.alpha, self.layout, self.scale, bias)

    def predict(self, finder: Finder) -> Graph:
        """What a finder predicts for these queries and keys, as they lie.

        >>> records[0].predict(Window(51)).recall(records[0].gold)
        """
        check_type("finder", finder, Finder, "a finder, such as Window(51)")
        graph = finder(self.q, self.k, self.layout)
        return graph if self.allowed is None else graph & self.allowed
