"""A process that keeps what it frees does not get the same memory from the system again and again."""

import os
import platform
import subprocess
import sys

import pytest

COUNTED = """
import resource, sys
import torch
from sparsefinder.lab.memory import keep_freed

kept = keep_freed() if sys.argv[1] == "keep" else None
faults = [0, 0]
for turn in (0, 1):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.empty(1 << 24).fill_(1)
    faults[turn] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, faults[1])
"""
PAGES = 10 * (4 << 24) // 4096


def counted(what: str, **settings: str) -> tuple[str, int]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, what], capture_output=True, text=True, check=True, env={**own, **settings}
    )
    kept, faults = done.stdout.split()
    return kept, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's settings")
def test_what_is_freed_is_used_again() -> None:
    """Ten tensors, one after the other, after ten others: as many new pages as all of them have, and next to none."""
    assert counted("plain")[1] > PAGES / 1024
    kept, faults = counted("keep")
    assert kept == "True"
    assert faults < PAGES / 1024


@pytest.mark.parametrize("own", [{"MALLOC_TOP_PAD_": "0"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}])
def test_settings_of_ones_own_stay(own: dict[str, str]) -> None:
    assert counted("keep", **own)[0] == "False"
