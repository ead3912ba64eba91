"""Attention over graphs on a GPU, in Triton: tiles in which the graph has a pair, and its rules asked within them.

Triton is imported where a call is run, not before. On the CPU it runs only in Triton's interpreter
(TRITON_INTERPRET=1), for tests.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from .. import portable
from ..call import Call
from ..gpu import gpu_refusal

__all__ = ["MOST_SIZE", "refusal", "run", "weights"]

MOST_SIZE = 256
# Places within a head are numbers of 32 bits in the kernels, and so are those of tiles.
MOST_TOKENS = 1 << 22


def refusal(call: Call) -> str | None:
    found = gpu_refusal(call, "triton")
    if found is not None:
        return found
    if max(call.q.shape[-1], call.v.shape[-1]) > MOST_SIZE:
        return f"takes vectors of at most {MOST_SIZE} numbers"
    if max(call.grid.n, call.grid.m) > MOST_TOKENS:
        return f"takes at most {MOST_TOKENS:,} queries and keys"
    return None


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    from .attend import run

    return run(call)


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    """The weights, for looking at: by torch operations, chunk by chunk."""
    return portable.weights(call)
