"""Where the models of a run train and run."""

from __future__ import annotations

import torch

from ..errors import InputError

__all__ = ["device_of", "timed_on"]


def device_of(asked: str) -> torch.device:
    """The device that a recipe asks for: "cpu", "cuda", or "auto", which is a GPU if there is one."""
    found = torch.cuda.is_available()
    if asked == "cuda" and not found:
        raise InputError(
            "device", "'cuda', and torch finds no GPU here", "'cpu', or 'auto' to take one if there is one"
        )
    return torch.device("cuda" if found and asked != "cpu" else "cpu")


def timed_on(asked: str) -> list[str]:
    """What running times depend on, for keys; nothing is said of the CPU."""
    kind = device_of(asked).type
    return [] if kind == "cpu" else [kind]
