"""Checks of parameters that are one number, or one per head."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError, is_number

__all__ = ["at_least", "between", "rounded_down", "whole"]


def whole(least: int, **values: object) -> None:
    """Raise unless all are whole numbers from `least` upwards."""
    for name, value in values.items():
        if isinstance(value, Tensor):
            right = not value.is_floating_point() and _all(value, least, None)
        else:
            right = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not right:
            raise InputError(name, repr(value), f"a whole number from {least} upwards")


def at_least(least: int | float, **values: int | float | Tensor) -> None:
    """Raise unless all are numbers from `least` upwards."""
    for name, value in values.items():
        if not _numbers(value) or not _all(value, least, None):
            raise InputError(name, repr(value), f"a number from {least:g} upwards")


def between(least: int | float, most: int | float, **values: int | float | Tensor) -> None:
    """Raise unless all are numbers from `least` to `most`."""
    for name, value in values.items():
        if not _numbers(value) or not _all(value, least, most):
            raise InputError(name, repr(value), f"a number from {least:g} to {most:g}")


def _numbers(value: object) -> bool:
    return isinstance(value, Tensor) or is_number(value)


def _all(value: int | float | Tensor, least: int | float, most: int | float | None) -> bool:
    if isinstance(value, Tensor):
        return bool((value >= least).all()) and (most is None or bool((value <= most).all()))
    return least <= value and (most is None or value <= most)


def rounded_down(limit: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest numbers of a type that are not above the limits, so that x ≤ limit may be asked in that type."""
    near = limit.to(dtype)
    return torch.where(near.double() > limit.double(), torch.nextafter(near, torch.full_like(near, -torch.inf)), near)
