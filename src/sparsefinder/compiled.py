"""The module of C++ kernels, if it was built when sparsefinder was installed.

`SPARSEFINDER_KERNEL=plain` in the environment chooses the kernels that use no vector instructions, for tests and for
the suspicious.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakSet

from torch import Tensor
from torch.utils import dlpack

__all__ = ["Held", "capsule", "module", "plain"]

module: ModuleType | None
try:
    module = import_module("sparsefinder._native")
except ImportError:
    module = None

# A capsule from here reaches the kernels in a tenth of the time that a tensor's own `__dlpack__` takes.
capsule: Callable[[Tensor], Any] = dlpack.to_dlpack  # type: ignore[attr-defined]


class Held:
    """An object of the module, for where torch saves it with a tensor: let go of at the exit of Python at the latest.

    Torch never takes apart the graphs of tensors that are there at the exit. Objects of C++ in them would outlive the
    module, which nanobind reports as leaks.
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        _held.add(self)


_held: WeakSet[Held] = WeakSet()


@atexit.register
def _let_go() -> None:
    for each in list(_held):
        each.value = None


def plain() -> bool:
    return os.environ.get("SPARSEFINDER_KERNEL") == "plain"
