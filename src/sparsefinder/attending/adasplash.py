"""Full attention on a GPU by AdaSplash (Gonçalves et al., 2025, arXiv:2502.12082), the library made for it.

Thin: what the library cannot take is refused here, and calls are put into its terms. Causal calls with α = 1.5 run in
its second version, others in its first. In Triton's interpreter, where neither runs, that without block masks does.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..extras import needed
from . import portable
from .call import Call
from .gpu import gpu_refusal, interpreted

__all__ = ["refusal", "run", "weights"]

# The sizes of vectors that its kernels are written for.
SIZES = (16, 32, 64, 128, 256)
# Shorter sequences its second version does not take: they are padded.
LEAST_TOKENS = 64


def refusal(call: Call) -> str | None:
    found = gpu_refusal(call, "adasplash", "triton")
    if found is not None:
        return found
    layout, (_, _, n, m) = call.grid.layout, call.grid.shape
    if call.graph is not None:
        return "computes all pairs, and takes no graph"
    if n != m or isinstance(layout.query_offset, Tensor) or layout.query_offset:
        return "takes as many queries as keys, from the first one on"
    if 0 in call.grid.shape:
        return "takes no empty tensors"
    if isinstance(call.alpha, Tensor):
        return "takes one alpha for all heads, as a number"
    if call.alpha > 2:
        return "takes no alpha above 2"
    if max(call.q.shape[-1], call.v.shape[-1]) > SIZES[-1]:
        return f"takes vectors of at most {SIZES[-1]} numbers"
    if call.q.dtype == torch.float32 and not interpreted() and torch.get_float32_matmul_precision() == "highest":
        return "multiplies float32 in TF32, which torch.set_float32_matmul_precision does not allow"
    lengths, queries = layout.key_lengths, layout.query_lengths
    if lengths is None and queries is None:
        return None
    # The library knows one length of each sequence. This waits for the device.
    same = queries is not None and lengths is not None and torch.equal(lengths, queries)
    return None if same else "takes key_lengths and query_lengths that are the same"


def run(call: Call) -> Float[Tensor, "batch heads n e"]:
    """Its first version waits for the device once, for the longest sequence."""
    library = needed("adasplash", "gpu")
    n, width = call.grid.n, call.v.shape[-1]
    size = next(each for each in SIZES if each >= max(call.q.shape[-1], width))
    # The library scales by 1 / √size.
    factor = call.scale * math.sqrt(size)
    q = call.q if math.isclose(factor, 1.0) else call.q * factor
    causal = call.grid.layout.causal
    second = causal and call.alpha == 1.5 and not interpreted()
    tokens = max(n, LEAST_TOKENS) if second else n
    q, k, v = (pad(x, (0, size - x.shape[-1], 0, tokens - n)).contiguous() for x in (q, call.k, call.v))
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad) and not q.requires_grad:
        # What the backward pass needs is kept only where queries have a gradient.
        q = q.detach().requires_grad_()
    lengths = _lengths(call)
    if second:
        return library.adasplash_v2(q, k, v, varlen=lengths)[:, :, :n, :width]
    # Its first version knows no groups.
    k, v = (x.repeat_interleave(call.groups, 1).contiguous() for x in (k, v))
    entry = library.adasplash_no_block_mask if interpreted() else library.adasplash_v1
    out: Tensor = entry(q, k, v, alpha=call.alpha, is_causal=causal, varlen=lengths)
    return out[:, :, :n, :width]


def _lengths(call: Call) -> Int[Tensor, " batch"]:
    """Of each sequence, always: without, the library writes whole tiles, also past the end of what it was given."""
    lengths = call.grid.layout.key_lengths
    if lengths is not None:
        return lengths.int().contiguous()
    return torch.full((call.grid.batch,), call.grid.n, dtype=torch.int32, device=call.q.device)


def weights(call: Call) -> Float[Tensor, "batch heads n m"]:
    """The weights, for looking at: by torch operations, chunk by chunk."""
    return portable.weights(call)
