"""Memory that is freed is kept for the next tensor of that size.

glibc gives large pieces back to the system at once and asks for them anew, so that each is filled with zeros page by
page, at every step: a quarter of the time of training a causal language model on a CPU (`benchmarks/memory.py`).
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["keep_freed"]

# Of <malloc.h>: what may be free at the top of the heap before it is given back, what is asked for beyond what is
# needed, and how many pieces may be mappings of their own.
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
PAD = 128 << 20


def keep_freed() -> bool:
    """From now on, in this process: what it frees stays with it. Says whether that is so.

    Where there is no glibc, or its settings are somebody's own (`MALLOC_…_`, `GLIBC_TUNABLES`), nothing changes.
    """
    if sys.platform != "linux" or "GLIBC_TUNABLES" in os.environ or any(_own(name) for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(*each) for each in ((TRIM_THRESHOLD, -1), (TOP_PAD, PAD), (MMAP_MAX, 0)))


def _own(name: str) -> bool:
    return name.startswith("MALLOC_") and name.endswith("_")
