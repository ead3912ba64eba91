"""Scores that are scaled by length, by as much as each head learns. ASEntmax: Vasylenko et al., 2025, arXiv:2506.16640

With a fixed scale, the more keys there are, the more of them come close to the best one, and weights are spread. The
scores of a query that may see n keys are multiplied by δ + β (log n)^γ, with β = softplus(w_β·x) and γ = s tanh(w_γ·x)
where x is what the layer gets of that token. A factor of a row's scores is a factor of its query: kernels, gradients,
finders, traces and indexes of keys see a longer query and nothing else.

Learned per head: δ, w_β and w_γ. Both vectors begin at zero and δ at 1 − softplus(0), a factor of 1 for every query: a
model that is switched begins as the model that it was, where the paper's begin from scratch with δ = 1.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from .attend import Attend
from .masking import Mask, Turn

__all__ = ["NAMES", "factors", "scaled", "set_scaling"]

# Of what a module gets: δ, and w_β and w_γ.
NAMES = ("entmax_delta", "entmax_beta", "entmax_gamma")
# s, the largest power of log n either way.
STEEPEST = 3.0
# What the attention module that runs in this thread was called with: its attention function gets queries and no more.
_called = threading.local()


def set_scaling(module: nn.Module, attend: Attend, width: int | None) -> None:
    """Give one attention layer what it learns of lengths, for tokens of a width; with None, take it away."""
    for name in NAMES:
        if hasattr(module, name):
            delattr(module, name)
    for key in [key for key, hook in module._forward_pre_hooks.items() if hook is _remember]:
        del module._forward_pre_hooks[key], module._forward_pre_hooks_with_kwargs[key]
    if width is not None:
        first = next(module.parameters())
        like = first.new_empty(0, dtype=torch.promote_types(first.dtype, torch.float32))
        module.register_parameter(NAMES[0], nn.Parameter(like.new_full((attend.heads,), 1 - math.log(2))))
        for name in NAMES[1:]:
            module.register_parameter(name, nn.Parameter(like.new_zeros(attend.heads, width)))
        module.register_forward_pre_hook(_remember, with_kwargs=True)


def _remember(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    _called.hidden_states = given[0] if given else named["hidden_states"]


def scaled(module: nn.Module, attend: Attend, mask: Mask, query: Tensor, key: Tensor) -> Tensor:
    """The queries of a layer, each as long as its number of keys asks for; as they are where nothing was learned."""
    delta = getattr(module, NAMES[0], None)
    if delta is None:
        return query
    hidden, _called.hidden_states = _called.hidden_states.to(delta.dtype), None
    beta, gamma = (torch.einsum("bnx,hx->bhn", hidden, getattr(module, name)) for name in NAMES[1:])
    factor = factors(delta, beta, gamma, _seen(attend, mask, query, key))
    return query * factor.to(query.dtype)[..., None]


def factors(
    delta: Float[Tensor, " heads"],
    beta: Float[Tensor, "batch heads n"],
    gamma: Float[Tensor, "batch heads n"],
    seen: Int[Tensor, "batch n"],
) -> Float[Tensor, "batch heads n"]:
    """δ + softplus(β) (log n)^(s tanh γ). As of two keys where there is one, whose weight is 1 anyway: log 1 is 0."""
    logs = seen.clamp(min=2).to(beta).log()[:, None]
    return delta[:, None] + softplus(beta) * logs ** (STEEPEST * gamma.tanh())


def _seen(attend: Attend, mask: Mask, query: Tensor, key: Tensor) -> Int[Tensor, "batch n"]:
    """How many keys each query may see; under a sliding window, those before it count too."""
    own, n, m = attend.kind != "cross", query.shape[2], key.shape[2]
    dropped = mask.dropped
    if dropped is not None:
        # Counted from the first token, also where a sliding window dropped it from the cache.
        mask, m = mask.unrolled(), m + dropped.shape[1]
    turn = Turn.of(mask, n, m, own)
    keys = key.new_zeros(()).expand(len(key), key.shape[1], m, key.shape[3])
    degrees = mask.layout(n, own).of(query, keys).degrees()
    return turn.back(degrees[:, None, :, None])[:, 0, :, 0]
