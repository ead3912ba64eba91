"""A device that is not the CPU, on the CPU: tensors that say they are elsewhere.

What would fail on a GPU fails here: reading such a tensor as a numpy array, and computing with tensors of two devices.
Once `elsewhere` is called it is a device of the whole process: tests call it in a process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"
# Copies from one device to another are what moves tensors.
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
# What a GPU would have been waited for: numbers that Python reads, and results whose size the data decide.
WAITS: list[str] = []
ASKING = ("_local_scalar_dense", "nonzero", "masked_select", "repeat_interleave", "unique", "is_nonzero", "equal")


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device, and the one on the CPU that it is computed with."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Elsewhere:
        dense = inner.layout == torch.strided
        laid = {"strides": inner.stride(), "storage_offset": inner.storage_offset()} if dense else {}
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, layout=inner.layout, device=torch.device(NAME, 0), **laid
        )
        made.inner = inner
        return made

    def __repr__(self, *_: object, **__: object) -> str:
        return f"Elsewhere({self.inner})"

    def numpy(self, *_: object, **__: object) -> Any:
        raise TypeError(f"can't convert {NAME} device type tensor to numpy. Use Tensor.cpu() first")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return run(function, arguments, named or {})


def run(function: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """Compute on the CPU, and say that what comes out is where the tensors are, or where it was asked to be."""
    tensors = [one for one in tree_flatten((arguments, named))[0] if isinstance(one, torch.Tensor)]
    there = [one for one in tensors if isinstance(one, Elsewhere)]
    if there and function not in COPIES and any(one.dim() and not isinstance(one, Elsewhere) for one in tensors):
        raise RuntimeError(f"{function}: expected all tensors to be on the same device, but found {NAME} and cpu")
    asked = named.get("device")
    if not there and (asked is None or torch.device(asked).type != NAME):
        return function(*arguments, **named)
    if there:
        _note_waiting(function, arguments, asked)
    wrap = bool(there) if asked is None else torch.device(asked).type == NAME
    named = {**named, "device": torch.device("cpu")} if asked is not None and wrap else named
    known = {id(one.inner): one for one in there}
    inner = tree_map(lambda one: one.inner if isinstance(one, Elsewhere) else one, (arguments, named))
    result = function(*inner[0], **inner[1])
    if function is torch.ops.aten.copy_.default:
        return arguments[0]

    def out(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or not wrap:
            return one
        return known[id(one)] if id(one) in known else Elsewhere(one)

    return tree_map(out, result)


def _note_waiting(function: Any, arguments: Any, asked: Any) -> None:
    name = function.overloadpacket.__name__
    masks = name in ("index", "index_put_") and any(
        isinstance(one, torch.Tensor) and one.dtype == torch.bool for one in tree_flatten(arguments[1])[0]
    )
    if name.startswith(ASKING) or masks or (asked is not None and torch.device(asked).type != NAME):
        WAITS.append(name)


class Making(TorchDispatchMode):
    """Makes what is asked for elsewhere: operations without a tensor, which say by themselves where they are."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return run(function, arguments, named or {})


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """The device; tensors are made on it and moved to it as to any other."""
    _setup_privateuseone_for_python_backend(NAME)
    # torch.tensor(…, device=…) moves what it makes by itself, below what a mode sees.
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty_strided", _empty, "PrivateUse1")
    library.impl("_copy_from", _copy, "PrivateUse1")
    # Tensors like these know no inference mode, which is no_grad and more.
    with Making(), patch.object(torch, "inference_mode", torch.no_grad):
        yield torch.device(NAME, 0)


def _empty(size: list[int], stride: list[int], dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


def _copy(source: torch.Tensor, target: Elsewhere, non_blocking: bool = False) -> torch.Tensor:
    target.inner.copy_(source)
    return target


def in_a_process(*arguments: str) -> None:
    """tests.on_another_device in a process of its own, which the device stays with."""
    command = [sys.executable, "-m", "tests.on_another_device", *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith(f"done on {NAME}\n")
