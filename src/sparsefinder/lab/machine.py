"""The machine that a stage ran on, and how much memory it took at the most."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

__all__ = ["machine", "peak_memory"]


def machine() -> str:
    """The processor by its name, and how many of its cores may be used."""
    name = platform.processor() or platform.machine()
    said = Path("/proc/cpuinfo")
    if said.is_file():
        names = [line.partition(":")[2].strip() for line in said.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    return f"{name}, {_cores()} cores"


def peak_memory() -> int | None:
    """The most memory that this process had so far, or one that it waited for, in bytes; None where nobody counts."""
    try:
        import resource
    except ImportError:
        return None
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return most if sys.platform == "darwin" else 1024 * most


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
