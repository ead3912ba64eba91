"""What every implementation of attention gets: the arguments, checked, with every default filled in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.graph import Graph
from ..core.layout import Grid

__all__ = ["Call", "kernel_refusal"]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention. Heads of q may share heads of k and v in groups: head h uses key head h // groups."""

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch kv_heads m d"]
    v: Float[Tensor, "batch kv_heads m e"]
    grid: Grid
    graph: Graph | None
    alpha: float | Float[Tensor, " heads"]
    scale: float
    bias: Float[Tensor, "#batch #heads #n #m"] | None = None
    dropout: float = 0.0
    # With `exact` there is no graph: all pairs count, and `first` is only where they are likely to be found.
    exact: bool = False
    first: Graph | None = None

    @property
    def groups(self) -> int:
        return self.q.shape[1] // self.k.shape[1]

    @property
    def pairs(self) -> Graph:
        """The pairs to compute, also where there is no graph."""
        return Graph.full(self.grid) if self.graph is None else self.graph

    @property
    def dtype(self) -> torch.dtype:
        """What to compute in: float32 for the half-precision types."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32


def kernel_refusal(call: Call) -> str | None:
    """What no kernel takes, whoever wrote it."""
    if call.q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"computes in float32, not in {call.q.dtype}"
    if call.bias is not None:
        return "takes no bias"
    if call.dropout:
        return "has no dropout"
    return None
