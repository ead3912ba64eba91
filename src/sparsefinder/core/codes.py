"""Codes: queries and keys rounded to whole numbers of 8 bits, so that no product of two leaves 16 bits.

Keys are rounded as they are: whoever maps them there sees to it that they use the room (`low_rank` does). Longer ones
are shortened. A query is scaled first, by as much as fits: what its products are compared with is scaled too.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import capsule
from ..errors import InputError

__all__ = ["key_codes", "query_codes", "refuse_nonfinite"]

# As in kernels/constants.h, where it says why.
MOST_KEY_CODE, MOST_QUERY_CODE, LONGEST_KEY, LONGEST_QUERY = 127, 63, 181, 175


def key_codes(points: Float[Tensor, "batch heads m r"]) -> Int[Tensor, "batch heads m codes"]:
    """The codes of keys; an even number of them."""
    if _natively(points):
        return _rounded(points, None)
    codes = _finite(points).clamp(-MOST_KEY_CODE, MOST_KEY_CODE).round()
    square = codes.square().sum(-1, keepdim=True)
    factor = LONGEST_KEY / square.clamp(min=1).float().sqrt()
    return _even(torch.where(square > LONGEST_KEY**2, (codes.float() * factor).trunc(), codes.float()))


def query_codes(
    points: Float[Tensor, "batch heads n r"],
) -> tuple[Int[Tensor, "batch heads n codes"], Float[Tensor, "batch heads n"]]:
    """The codes of queries, and what each query was multiplied by."""
    if _natively(points):
        units = torch.empty(points.shape[:3])
        return _rounded(points, units), units
    finite = _finite(points)
    top = finite.abs().amax(-1).clamp(min=1e-30)
    unit = torch.minimum(MOST_QUERY_CODE / top, LONGEST_QUERY / (finite.square().sum(-1) + 1e-30).sqrt())
    return _even((finite * unit[..., None]).round()), unit


def _natively(points: Tensor) -> bool:
    return compiled.module is not None and points.device.type == "cpu" and points.dtype == torch.float32


def _rounded(points: Tensor, units: Tensor | None) -> Tensor:
    assert compiled.module is not None
    points = points.detach().contiguous()
    rank = points.shape[-1]
    codes = torch.empty((*points.shape[:3], rank + rank % 2), dtype=torch.int8)
    flat = None if units is None else capsule(units.view(-1))
    if compiled.module.round_points(
        capsule(points.view(-1, rank)), capsule(codes.view(-1, codes.shape[-1])), flat, torch.get_num_threads(),
        compiled.plain(),
    ):  # fmt: skip
        refuse_nonfinite()
    return codes


def _finite(points: Tensor) -> Tensor:
    points = (points.float() if points.dtype in (torch.float16, torch.bfloat16) else points).detach()
    # Elsewhere than on a CPU asking would wait for the device.
    if points.device.type == "cpu" and not bool(points.isfinite().all()):
        refuse_nonfinite()
    return points


def refuse_nonfinite() -> None:
    """Raise the error for numbers that no code is for."""
    raise InputError("q, k", "NaN or infinity among them", "finite queries and keys")


def _even(codes: Tensor) -> Tensor:
    return torch.nn.functional.pad(codes, (0, codes.shape[-1] % 2)).to(torch.int8)
