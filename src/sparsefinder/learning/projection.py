"""Projection: per-head linear maps of queries and keys to a few dimensions.

What is learned (`learn.learn`, `rows.refine`) and what has a closed form (`moments.principal`, `low_rank`) both end
as one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..core.layout import check_vectors
from ..core.mapping import mapped
from ..errors import InputError, wrong_type

__all__ = ["Projection", "check_tokens"]


@dataclass(frozen=True, eq=False)
class Projection:
    """A map from d to r dimensions for the queries of each head and one for its keys; shared ones are the same tensor.

    >>> near = learn([Sample(q, k)], r=4)
    >>> near.of_queries(q).shape  # (batch, heads, n, 4)
    """

    queries: Float[Tensor, "heads d r"]
    keys: Float[Tensor, "heads d r"]

    def __post_init__(self) -> None:
        for name, maps in (("queries", self.queries), ("keys", self.keys)):
            if not isinstance(maps, Tensor):
                raise wrong_type(name, maps, "a tensor (heads, d, r): a map from d to r dimensions for each head")
            if maps.ndim != 3:
                raise InputError(name, f"a tensor of shape {tuple(maps.shape)}", "three dimensions: (heads, d, r)")

    def of_queries(self, q: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch heads n r"]:
        """Queries mapped."""
        check_tokens("q", q, self.queries)
        return mapped(q, self.queries)

    def of_keys(self, k: Float[Tensor, "batch kv_heads m d"]) -> Float[Tensor, "batch heads m r"]:
        """Keys mapped; several heads may share them."""
        check_tokens("k", k, self.keys, shared=True)
        return mapped(k, self.keys)

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


def check_tokens(name: str, tokens: Tensor, maps: Float[Tensor, "heads d _"], shared: bool = False) -> None:
    """Refuse tokens that maps were not made for. shared: heads may share them in groups."""
    check_vectors(name, tokens)
    heads, given = maps.shape[0], tokens.shape[1]
    if (heads % max(given, 1) if shared else heads != given) or tokens.shape[-1] != maps.shape[1]:
        want = f"{maps.shape[0]} heads of {maps.shape[1]} dimensions, as the projection was made for"
        raise InputError(name, f"shape {tuple(tokens.shape)}", want)
