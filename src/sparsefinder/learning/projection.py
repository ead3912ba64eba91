"""Projection: per-head linear maps of queries and keys to a few dimensions.

What is learned (`learning.learn` and `refine`) and what has a closed form (`moments.principal` and `low_rank`) both end
as one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule
from ..errors import InputError

__all__ = ["Projection"]


@dataclass(frozen=True, eq=False)
class Projection:
    """A map from d to r dimensions for the queries of each head and one for its keys; shared ones are the same tensor.

    >>> near = learn([Sample(q, k)], r=4)
    >>> near.of_queries(q).shape  # (batch, heads, n, 4)
    """

    queries: Float[Tensor, "heads d r"]
    keys: Float[Tensor, "heads d r"]

    def of_queries(self, q: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch heads n r"]:
        """Queries mapped."""
        return _mapped("q", q, self.queries)

    def of_keys(self, k: Float[Tensor, "batch kv_heads m d"]) -> Float[Tensor, "batch heads m r"]:
        """Keys mapped; several heads may share them."""
        return _mapped("k", k, self.keys, grouped=True)

    @property
    def shared(self) -> bool:
        """Whether queries and keys have the same map."""
        return self.queries is self.keys

    def save(self, path: str | Path) -> None:
        """Write the maps to a safetensors file."""
        maps = {"shared": self.queries} if self.shared else {"queries": self.queries, "keys": self.keys}
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in maps.items()}, path)

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """Read what `save` wrote."""
        maps = load_file(path)
        if set(maps) not in ({"shared"}, {"queries", "keys"}):
            raise InputError("path", f"{path}, a file of {sorted(maps)}", "a file that Projection.save wrote")
        return cls(maps["shared"], maps["shared"]) if "shared" in maps else cls(maps["queries"], maps["keys"])


def _mapped(name: str, tokens: Tensor, maps: Float[Tensor, "heads d r"], grouped: bool = False) -> Tensor:
    fits = maps.shape[0] % max(tokens.shape[1], 1) == 0 if grouped else maps.shape[0] == tokens.shape[1]
    if not fits or tokens.shape[-1] != maps.shape[1]:
        want = f"{maps.shape[0]} heads of {maps.shape[1]} dimensions, as the projection was made for"
        raise InputError(name, f"shape {tuple(tokens.shape)}", want)
    wanted = torch.is_grad_enabled() and (tokens.requires_grad or maps.requires_grad)
    native, kinds = compiled.module, {tokens.dtype, maps.dtype}
    if native is None or wanted or tokens.device.type != "cpu" or kinds != {torch.float32} or tokens.stride(-1) != 1:
        tokens = tokens.repeat_interleave(maps.shape[0] // tokens.shape[1], 1)
        # Turned round, the product has long rows instead of very short ones, which a CPU computes many times as fast.
        return (maps.mT @ tokens.to(maps.dtype).mT).mT
    # Still many times as slow as a loop made for it.
    wide = pad(maps.detach(), (0, -maps.shape[-1] % native.LANES)).contiguous()
    out = torch.empty((tokens.shape[0], maps.shape[0], tokens.shape[2], maps.shape[-1]))
    native.map_tokens(capsule(tokens.detach()), capsule(wide), capsule(out), torch.get_num_threads(), compiled.plain())
    return out
