"""Dense attention in a few lines: every score is computed and kept. The oracle for the other implementations."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.entmax import entmax
from .call import Call

__all__ = ["refusal", "run", "weights"]


def refusal(call: Call) -> str | None:
    return None


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    p = torch.nn.functional.dropout(_weights(call), call.dropout)
    return p @ call.v.to(call.dtype).repeat_interleave(call.groups, 1)


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    return _weights(call).detach().to_sparse()


def _weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    k = call.k.to(call.dtype).repeat_interleave(call.groups, 1)
    scores = call.q.to(call.dtype) @ k.transpose(-1, -2) * call.scale
    if call.bias is not None:
        scores = scores + call.bias.to(call.dtype)
    alpha = call.alpha if isinstance(call.alpha, float) else call.alpha[:, None, None]
    return entmax(scores.masked_fill(~call.pairs.dense(), -math.inf), alpha)
