"""The module of C++ kernels, if it was built when sparsefinder was installed.

`SPARSEFINDER_KERNEL=plain` in the environment chooses the kernels that use no vector instructions, for tests and for
the suspicious.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from torch import Tensor
from torch.utils import dlpack

__all__ = ["capsule", "module", "plain"]

module: ModuleType | None
try:
    module = import_module("sparsefinder._native")
except ImportError:
    module = None

# A capsule from here reaches the kernels in a tenth of the time that a tensor's own `__dlpack__` takes.
capsule: Callable[[Tensor], Any] = dlpack.to_dlpack  # type: ignore[attr-defined]


def plain() -> bool:
    return os.environ.get("SPARSEFINDER_KERNEL") == "plain"
