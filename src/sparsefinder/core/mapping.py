"""Tokens mapped to a few dimensions, straight or bent, per head: in C++ where that can be, many times as fast."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule

__all__ = ["Layer", "bent", "mapped", "maps_natively", "wide", "widened"]

# Units of a head: the last row is added to all.
Layer = Float[Tensor, "heads inputs units"]


def mapped(
    tokens: Float[Tensor, "batch token_heads length d"], maps: Float[Tensor, "heads d r"]
) -> Float[Tensor, "batch heads length r"]:
    """Every token times the map of its head; heads may share tokens in groups."""
    if _learning(tokens, maps) or not maps_natively(tokens, maps):
        tokens = tokens.repeat_interleave(maps.shape[0] // max(tokens.shape[1], 1), 1)
        # Turned round, the product has long rows instead of very short ones, which a CPU computes many times as fast.
        return (maps.mT @ tokens.to(maps.dtype).mT).mT
    return _natively(tokens, wide(maps), maps.shape[-1], None)


def widened(tokens: Float[Tensor, "batch token_heads length d"], layer: Layer) -> Float[Tensor, "batch heads length _"]:
    """Tokens followed by what the units of a layer say of them, ReLU(x·w + b); heads may share tokens in groups."""
    said = mapped(pad(tokens, (0, 1), value=1.0), layer).relu()
    return torch.cat([tokens.repeat_interleave(layer.shape[0] // max(tokens.shape[1], 1), 1).to(said.dtype), said], -1)


def bent(
    tokens: Float[Tensor, "batch token_heads length d"], layer: Layer, maps: Float[Tensor, "heads wider r"]
) -> Float[Tensor, "batch heads length r"]:
    """Every token widened by the layer of its head, and mapped then."""
    if _learning(tokens, layer, maps) or not maps_natively(tokens, maps) or layer.dtype != maps.dtype:
        return mapped(widened(tokens, layer), maps)
    units = wide(layer)
    # Units that fill up say nothing, whatever their rows of the maps.
    rows = wide(pad(maps, (0, 0, 0, units.shape[-1] - layer.shape[-1])))
    return _natively(tokens, rows, maps.shape[-1], units)


def _natively(tokens: Tensor, maps: Tensor, r: int, layer: Tensor | None) -> Tensor:
    assert compiled.module is not None
    out = torch.empty((tokens.shape[0], maps.shape[0], tokens.shape[2], r))
    compiled.module.map_tokens(
        capsule(tokens.detach()), capsule(maps), None if layer is None else capsule(layer), capsule(out),
        torch.get_num_threads(), compiled.plain(),
    )  # fmt: skip
    return out


def _learning(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


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
