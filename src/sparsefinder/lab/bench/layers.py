"""The attention layers of a model on one batch, as they attend there: what finding and attending are timed on alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ...attending import attention
from ...core.graph import Graph
from ...core.layout import Layout
from ...finders import Finder
from ...hf.interface import NAME
from ...hf.models import record
from ...traces.store import Site

__all__ = ["Layer", "layers_of"]


@dataclass(frozen=True, eq=False)
class Layer:
    """Queries, keys and values of a layer, and how it scores. Keys and values may be shared by groups of heads."""

    site: Site
    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch kv_heads m d"]
    v: Float[Tensor, "batch kv_heads m e"]
    layout: Layout
    scale: float | None = None
    alpha: float | Float[Tensor, " heads"] = 1.5

    def find(self, finder: Finder | None) -> Graph | None:
        """What a finder predicts here, as models ask it; None without one."""
        if finder is None:
            return None
        groups = self.q.shape[1] // self.k.shape[1]
        as_they_are = groups == 1 or finder.grouped
        return finder(self.q, self.k if as_they_are else self.k.repeat_interleave(groups, 1), self.layout)

    def attend(self, graph: Graph | None, exact: bool = False) -> Tensor:
        """Entmax attention over a graph, or over all pairs."""
        return attention(
            self.q, self.k, self.v, graph, alpha=self.alpha, layout=self.layout, scale=self.scale, exact=exact
        )

    def softmax(self) -> Tensor:
        """Torch's own attention over the same queries, keys and values."""
        return scaled_dot_product_attention(
            self.q, self.k, self.v, is_causal=self.layout.causal, scale=self.scale,
            enable_gqa=self.q.shape[1] != self.k.shape[1],
        )  # fmt: skip


def layers_of(model: PreTrainedModel, inputs: Mapping[str, Tensor], sites: Collection[Site]) -> list[Layer]:
    """What some layers of an entmax model attend with on a batch of whole sequences, without padding."""
    original: Any = ALL_ATTENTION_FUNCTIONS[NAME]
    handed: list[tuple[Tensor, Tensor]] = []

    def tapped(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **more: Any) -> Any:
        # A record has the keys of each head; what heads share has to be seen before.
        handed.append((key, value))
        return original(module, query, key, value, *rest, **more)

    ALL_ATTENTION_FUNCTIONS.register(NAME, tapped)
    try:
        with torch.no_grad(), record(model) as records:
            model(**inputs)
    finally:
        ALL_ATTENTION_FUNCTIONS.register(NAME, original)
    return [
        Layer((one.kind, one.layer), one.q, key, value, one.layout, one.scale, one.alpha)
        for one, (key, value) in zip(records, handed, strict=True)
        if (one.kind, one.layer) in sites
    ]
