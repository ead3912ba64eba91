"""Moving what is made of tensors to another device: finders, graphs, layouts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["moved"]

Anything = TypeVar("Anything")


def moved(value: Anything, device: str | torch.device) -> Anything:
    """The same with all of its tensors on a device: of a dataclass and of the dataclasses and tuples in it.

    What is one tensor in two places, as shared maps are, stays one. What is there already is not copied.
    """
    return _moved(value, torch.device(device), {})


def _moved(value: Any, device: torch.device, known: dict[int, Tensor]) -> Any:
    if isinstance(value, Tensor):
        if id(value) not in known:
            known[id(value)] = value.to(device)
        return known[id(value)]
    if isinstance(value, torch.device):
        return value if value == device else device
    if is_dataclass(value) and not isinstance(value, type):
        before = {each.name: getattr(value, each.name) for each in fields(value)}
        after = {name: _moved(one, device, known) for name, one in before.items()}
        changed = {name: one for name, one in after.items() if one is not before[name]}
        return replace(value, **changed) if changed else value
    if type(value) is tuple:
        parts = tuple(_moved(one, device, known) for one in value)
        return value if all(one is two for one, two in zip(value, parts, strict=True)) else parts
    return value
