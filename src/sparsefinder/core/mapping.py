"""Tokens mapped to a few dimensions, by a map per head: in C++ where that can be, which a library for matrices is not made for."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule

__all__ = ["mapped", "maps_natively", "wide"]


def mapped(
    tokens: Float[Tensor, "batch token_heads length d"], maps: Float[Tensor, "heads d r"]
) -> Float[Tensor, "batch heads length r"]:
    """Every token times the map of its head; heads may share tokens in groups."""
    if (torch.is_grad_enabled() and (tokens.requires_grad or maps.requires_grad)) or not maps_natively(tokens, maps):
        tokens = tokens.repeat_interleave(maps.shape[0] // max(tokens.shape[1], 1), 1)
        # Turned round, the product has long rows instead of very short ones, which a CPU computes many times as fast.
        return (maps.mT @ tokens.to(maps.dtype).mT).mT
    assert compiled.module is not None
    out = torch.empty((tokens.shape[0], maps.shape[0], tokens.shape[2], maps.shape[-1]))
    compiled.module.map_tokens(
        capsule(tokens.detach()), capsule(wide(maps)), capsule(out), torch.get_num_threads(), compiled.plain()
    )
    return out


def maps_natively(tokens: Tensor, maps: Tensor) -> bool:
    """Whether the kernels can map these tokens."""
    return (
        compiled.module is not None
        and tokens.device.type == "cpu"
        and tokens.dtype == maps.dtype == torch.float32
        and (tokens.stride(-1) == 1 or tokens.shape[-1] == 1)
    )


def wide(maps: Float[Tensor, "heads d r"]) -> Float[Tensor, "heads d width"]:
    """Maps as the kernels take them: rows padded with zeros."""
    assert compiled.module is not None
    return pad(maps.detach(), (0, -maps.shape[-1] % compiled.module.LANES)).contiguous()
