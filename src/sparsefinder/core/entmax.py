"""The α-entmax mapping, its threshold, and its gradient in the scores and in α.

With a = α − 1, entmax gives a score z the weight p = [1 + a (z − λ)]₊^(1/a), where λ makes the weights sum to one
(Eq. 2 of the paper, with τ = a λ − 1); `solving.py` finds it. The form stays well conditioned around α = 1, where it is
softmax and λ is log-sum-exp.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError, is_number, wrong_type
from .solving import edge, solve_2, solve_15, solve_any, weights_any

__all__ = ["check_alpha", "entmax", "entmax_threshold"]

# Rows are worked on in pieces of this many numbers, so that the passes of the solver run in the processor's cache.
CPU_PIECE = 1 << 18


def entmax(
    scores: Float[Tensor, "*shape"],
    alpha: float | Float[Tensor, "..."] = 1.5,
    dim: int = -1,
    *,
    check: bool | None = None,
) -> Float[Tensor, "*shape"]:
    """Map scores to weights that sum to one along `dim`, most of them exactly zero.

    >>> entmax(torch.tensor([2.0, 1.0, -1.0]))
    tensor([0.8307, 0.1693, 0.0000])

    `alpha` is 1 for softmax, 2 for sparsemax, 1.5 for the paper's choice; as a tensor it broadcasts against the scores
    (one value per head: shape [heads, 1, 1]) and gets its gradient. Between 0 and 1, weights fall off more slowly than
    those of softmax, and none is zero. A row of −inf gives zeros. NaN and +inf are errors: looked for on the CPU, where
    that is free, and elsewhere only with `check=True`, because it waits for the device.

    From α = 2 on, the gradient jumps where a score crosses the threshold. A score on it, or above it by the rounding of
    the threshold alone, is outside: it has no weight, and the gradient is that of the row without it.
    """
    rows, alpha_rows = _as_rows(scores, alpha, dim, check)
    if isinstance(alpha_rows, float) and alpha_rows == 1.0:
        empty = (rows == -math.inf).all(-1, keepdim=True)
        weights = rows.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    else:
        weights = _Entmax.apply(rows, alpha_rows)
    moved = scores.movedim(dim, -1).shape
    return weights.reshape(moved).movedim(-1, dim).to(scores.dtype)


def entmax_threshold(
    scores: Float[Tensor, "..."], alpha: float = 1.5, dim: int = -1, *, check: bool | None = None
) -> Float[Tensor, "..."]:
    """The score below which entmax gives nothing, τ / (α − 1) in the paper's letters; −inf for a row of −inf.

    >>> entmax_threshold(torch.tensor([2.0, 1.0, -1.0]))
    tensor(0.1771)

    The threshold of some of the scores never exceeds the threshold of all of them: a partial row already rules out
    every score below it. Up to α = 1 everything gets weight and the threshold is −inf.
    """
    rows, alpha_rows = _as_rows(scores, alpha, dim, check)
    rows = rows.detach()
    if isinstance(alpha_rows, Tensor):
        raise InputError("alpha", "a tensor", "a number: a threshold is computed for one alpha at a time")
    shape = scores.movedim(dim, -1).shape[:-1]
    if alpha_rows <= 1.0:
        return rows.new_full(shape, -math.inf)
    thresholds = rows.new_full((rows.shape[0], 1), -math.inf)
    for piece in _pieces(rows):
        top = _row_maximum(rows[piece])
        shifted = rows[piece] - top
        a = alpha_rows - 1
        if alpha_rows == 1.5:
            bound = top + solve_15(shifted / 2) * 2
        elif alpha_rows == 2.0:
            bound = top + solve_2(shifted)
        else:
            bound = top + solve_any(shifted, a).to(top.dtype) - 1 / a
        thresholds[piece] = torch.where((shifted == -math.inf).all(-1, keepdim=True), -math.inf, bound)
    return thresholds.reshape(shape).to(scores.dtype)


def _as_rows(
    scores: Tensor, alpha: float | Tensor, dim: int, check: bool | None
) -> tuple[Float[Tensor, "rows m"], float | Float[Tensor, "rows 1"]]:
    """Check the input, and lay it out as contiguous rows in at least float32."""
    if not isinstance(scores, Tensor):
        raise wrong_type("scores", scores, "a tensor of floating-point numbers")
    if not scores.is_floating_point():
        raise InputError("scores", f"a tensor of {scores.dtype}", "a tensor of floating-point numbers")
    if not isinstance(dim, int) or not -scores.ndim <= dim < scores.ndim:
        raise InputError("dim", repr(dim), f"a dimension of the scores, whose shape is {tuple(scores.shape)}")
    working = scores.to(torch.float32) if scores.dtype in (torch.float16, torch.bfloat16) else scores
    moved = working.movedim(dim, -1)
    rows = moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    if check or (check is None and scores.device.type == "cpu"):
        _refuse_infinite(rows)
    if not isinstance(alpha, Tensor):
        check_alpha(alpha)
        return rows, float(alpha)
    if not bool((alpha.detach() > 0).all() and alpha.detach().isfinite().all()):
        raise InputError("alpha", f"values down to {alpha.min().item():g}", "numbers above 0; 1 is softmax")
    try:
        one_a_row = torch.broadcast_to(alpha, (*scores.shape[:dim], 1, *scores.shape[dim:][1:]))
    except RuntimeError:
        wanted = (
            f"a number, or a tensor that broadcasts against the scores {tuple(scores.shape)} with size 1 in dim {dim}"
        )
        raise InputError("alpha", f"a tensor of shape {tuple(alpha.shape)}", wanted) from None
    return rows, one_a_row.movedim(dim, -1).reshape(len(rows), 1).to(rows.dtype)


def check_alpha(alpha: object) -> None:
    """Raise unless this is a number that can be α."""
    if not is_number(alpha) or not 0 < alpha < math.inf:  # type: ignore[operator]
        raise InputError("alpha", repr(alpha), "a number above 0, such as 1.5, or a tensor of such; 1 is softmax")


def _refuse_infinite(rows: Float[Tensor, "rows m"]) -> None:
    if rows.numel() == 0:
        return
    # The maximum tells both: amax passes NaN on, and one more pass is a small part of the work.
    worst = rows.detach().amax(-1).amax()
    if worst.isnan() or worst == math.inf:
        found = "NaN" if worst.isnan() else "+inf"
        raise InputError("scores", f"{found} among them", "finite numbers, or -inf for what may not be chosen")


def _pieces(rows: Tensor) -> list[slice]:
    count, width = rows.shape
    step = max(1, CPU_PIECE // max(width, 1)) if rows.device.type == "cpu" else max(count, 1)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)] if width else []


def _row_maximum(rows: Tensor) -> Tensor:
    """The maximum of each row, 0 where there is none, so that subtracting it leaves −inf alone."""
    top = rows.amax(-1, keepdim=True)
    return top.masked_fill_(top == -math.inf, 0.0)


class _Entmax(torch.autograd.Function):
    """Weights of rows of scores. Saves only the weights: the gradient follows from them."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, alpha: float | Tensor) -> Tensor:
        weights = torch.empty_like(rows)
        for piece in _pieces(rows):
            part = rows[piece]
            shifted = torch.sub(part, _row_maximum(part), out=weights[piece])
            if isinstance(alpha, Tensor):
                weights[piece] = weights_any(shifted, alpha[piece] - 1)
            elif alpha == 1.5:
                shifted.mul_(0.5)
                shifted.sub_(solve_15(shifted)).clamp_(min=0).square_()
            elif alpha == 2.0:
                shifted.sub_(solve_2(shifted))
                torch.nn.functional.threshold(shifted, float(edge(shifted, 1.0)), 0.0, inplace=True)
            else:
                weights[piece] = weights_any(shifted, alpha - 1)
        ctx.save_for_backward(weights, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.alpha = None if isinstance(alpha, Tensor) else alpha
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weights, alpha = ctx.saved_tensors if ctx.alpha is None else (ctx.saved_tensors[0], ctx.alpha)
        grad = grads[0]
        grad_rows = torch.empty_like(weights) if ctx.needs_input_grad[0] else None
        grad_alpha = torch.zeros_like(alpha) if ctx.needs_input_grad[1] else None
        for piece in _pieces(weights):
            p, g = weights[piece], grad[piece]
            a = alpha - 1 if isinstance(alpha, float) else (alpha[piece] - 1)
            s = _slope(p, a)
            # The gradient that a shift of every score would have: entmax does not see such a shift.
            mean = (s * g).sum(-1, keepdim=True) / s.sum(-1, keepdim=True).clamp_min_(torch.finfo(s.dtype).tiny)
            centred = g - mean
            if grad_rows is not None:
                torch.mul(s, centred, out=grad_rows[piece])
            if grad_alpha is not None:
                grad_alpha[piece] = (_alpha_slope(p, a) * centred).sum(-1, keepdim=True)
        return grad_rows, grad_alpha


def _slope(p: Tensor, a: float | Tensor) -> Tensor:
    """∂p/∂z at a fixed λ: p^(1 − a) on the support, zero off it."""
    if isinstance(a, float):
        if a == 0.5:
            return p.sqrt()
        if a == 1.0:
            return (p > 0).to(p.dtype)
    return torch.where(p > 0, p.pow(1 - a), 0.0)


def _alpha_slope(p: Tensor, a: float | Tensor) -> Tensor:
    """∂p/∂α at a fixed λ: (p − p^(1−a)) / a² − p log p / a, or −p log²p · (e^(−y) − 1 + y) / y² with y = a log p.

    The quotient loses every digit near y = 0, where its Taylor series takes over.
    """
    log = torch.where(p > 0, p, 1.0).log()
    y = a * log
    series = 0.5 - y / 6 + y.square() / 24 - y.pow(3) / 120 + y.pow(4) / 720
    small = y.abs() < 0.05
    quotient = (torch.expm1(-y) + y) / torch.where(small, 1.0, y).square()
    return -p * log.square() * torch.where(small, series, quotient)
