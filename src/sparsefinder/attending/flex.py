"""Softmax over graphs on a GPU, by torch's FlexAttention.

Thin: what it cannot take is refused here. On a CPU it runs only for tests (TRITON_INTERPRET=1), uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from . import portable
from .call import Call, kernel_refusal
from .gpu import interpreted

__all__ = ["refusal", "run", "weights"]

# Queries and keys of a tile: what FlexAttention is tuned for.
SIZE = 128


def refusal(call: Call) -> str | None:
    if call.q.device.type != "cuda" and not interpreted():
        return f"runs on a GPU only, not on {call.q.device}"
    if isinstance(call.alpha, Tensor) or call.alpha != 1:
        return "is for softmax, alpha = 1, alone"
    if call.graph is None:
        return "is for graphs: softmax over all pairs is torch's own attention"
    if 0 in call.grid.shape:
        return "takes no empty tensors"
    return kernel_refusal(call)


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    """It waits for the device as `Graph.to_block_mask` does."""
    mask = call.pairs.to_block_mask(SIZE)
    out: Tensor = _attend(call.q.is_cuda)(
        call.q, call.k, call.v, block_mask=mask, scale=call.scale, enable_gqa=call.groups > 1
    )
    return out


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    """The weights, for looking at: by torch operations, chunk by chunk."""
    return portable.weights(call)


@cache
def _attend(compiled: bool) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    plain: Callable[..., Any] = flex_attention
    return torch.compile(plain, dynamic=False) if compiled else plain
