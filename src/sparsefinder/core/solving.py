"""Where the weights of entmax begin: λ and τ of rows of scores whose maximum is zero (see entmax.py).

λ is found without sorting, by Newton's method on (Σ p)^a. From α = 1 to 2 that is a norm, falling and convex in λ;
below α = 1 it is rising and concave: starting left of the root, Newton never overshoots. It is nearly linear, so that
four to six passes over a row are enough.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["edge", "solve_2", "solve_15", "solve_any", "weights_any"]

NEWTON_STEPS = 60
# Nearer to zero than this a, log1p(a u) / a equals u to float precision: softmax.
SMALLEST_A = 1e-12
# What lies above the threshold by no more than this many units of rounding gets no weight, from α = 2 on.
EDGE = 8


def solve_15(x: Float[Tensor, "rows m"]) -> Float[Tensor, "rows 1"]:
    """τ with Σ (x − τ)₊² = 1, for rows whose maximum is zero: Newton on the norm."""
    tau = x.new_full((x.shape[0], 1), -1.0)
    tiny = torch.finfo(x.dtype).tiny
    for _ in range(NEWTON_STEPS):
        residual = (x - tau).clamp_(min=0)
        norm = torch.linalg.vector_norm(residual, dim=-1, keepdim=True)
        step = norm.mul_(norm - 1).div_(residual.sum(-1, keepdim=True).clamp_min_(tiny))
        tau += _without_noise(step)
        if _settled(step):
            break
    return tau


def solve_2(x: Float[Tensor, "rows m"]) -> Float[Tensor, "rows 1"]:
    """τ with Σ (x − τ)₊ = 1, for rows whose maximum is zero: here Newton reaches the root after finitely many steps."""
    tau = x.new_full((x.shape[0], 1), -1.0)
    for _ in range(NEWTON_STEPS):
        residual = (x - tau).clamp_(min=0)
        total = residual.sum(-1, keepdim=True)
        step = total.sub_(1).div_((residual > 0).sum(-1, keepdim=True).clamp_min_(1))
        tau += _without_noise(step)
        if _settled(step):
            break
    return tau


def weights_any(z: Float[Tensor, "rows m"], a: float | Tensor) -> Float[Tensor, "rows m"]:
    """The weights for any α, for rows whose maximum is zero. Renormalised: λ is only known to rounding."""
    lam = solve_any(z, a)
    p, _ = _powers(z, lam, a)
    if bool((torch.as_tensor(a) >= 1).any()):
        above = z - lam
        p = p.masked_fill(1 + a * above <= edge(above, a), 0.0)
    return (p / p.sum(-1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)).to(z.dtype)


def edge(rows: Float[Tensor, "rows m"], a: float | Tensor) -> Float[Tensor, "*rows"]:
    """What 1 + a (z − λ) has to exceed for a weight: from α = 2 on more than rounding, because the gradient jumps.

    The highest score of a row always has more, (1/m)^a at least.
    """
    a = torch.as_tensor(a, dtype=rows.dtype, device=rows.device)
    rounding = EDGE * torch.finfo(rows.dtype).eps
    return torch.where(a >= 1, (torch.pow(rows.shape[-1], -a) / 2).clamp(max=rounding), 0.0)


def _apart_from_zero(a: Tensor) -> Tensor:
    """So that it can be divided by."""
    return torch.where(a.abs() < SMALLEST_A, SMALLEST_A, a)


def _powers(z: Tensor, lam: Tensor, a: float | Tensor) -> tuple[Tensor, Tensor]:
    """P = [1 + a (z − λ)]₊^(1/a) and p^(1 − a), through log1p so that nothing is lost near a = 0."""
    if isinstance(a, Tensor):
        a = _apart_from_zero(a.to(lam.dtype))
    base = (a * (z - lam)).clamp_(min=-1)
    p = (torch.log1p(base) / a).exp()
    return p, torch.where(base > -1, p / (1 + base), 0.0)


def solve_any(z: Float[Tensor, "rows m"], a: float | Tensor) -> Float[Tensor, "rows 1"]:
    """λ with Σ p = 1 for any α, for rows whose maximum is zero.

    Newton from the left for α ≤ 2, below α = 1 too. Above 2, a weight leaves the support with an infinite slope, so
    Newton's steps cannot be trusted there and the bracket is halved instead, in float64.
    """
    steep = bool((torch.as_tensor(a) > 1).any())
    if steep:
        z = z.double()
    step_size = _apart_from_zero(torch.as_tensor(a, dtype=z.dtype, device=z.device))
    finite = (z > -math.inf).sum(-1, keepdim=True).clamp_min(1)
    low = torch.zeros_like(finite, dtype=z.dtype)
    # All weights are equal at the most: λ ≤ (1 − m^(−a)) / a.
    high = -torch.expm1(-step_size * finite.log()) / step_size
    if steep:
        for _ in range(NEWTON_STEPS):
            middle = (low + high) / 2
            above = _powers(z, middle, a)[0].sum(-1, keepdim=True) >= 1
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        return low
    lam = low
    tiny = torch.finfo(z.dtype).tiny
    for _ in range(NEWTON_STEPS):
        p, slope = _powers(z, lam, a)
        total = p.sum(-1, keepdim=True).clamp_min(tiny)
        rise = -torch.expm1(-step_size * total.log()) / step_size
        step = rise * total / slope.sum(-1, keepdim=True).clamp_min(tiny)
        lam = lam + _without_noise(step)
        if _settled(step):
            break
    return lam


def _without_noise(step: Tensor) -> Tensor:
    """Drop steps that are only rounding, in place: a row then stands still while others go on, and so does not depend
    on what rows it is computed with.
    """
    return step.masked_fill_(step <= 4 * torch.finfo(step.dtype).eps, 0.0)


def _settled(step: Tensor) -> bool:
    """Whether all rows stand still. Asked of the CPU only: elsewhere asking costs more than another step."""
    return step.device.type == "cpu" and not bool(step.any())
