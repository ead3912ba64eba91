"""Every kernel for GPUs compiles to the machine code of A100 and H100, and fits there: shared memory, and registers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {"look", "attend", "of_queries", "of_keys", "best"}


@pytest.mark.parametrize("architecture", [80, 90])
def test_kernels_fit(architecture: int) -> None:
    command = [sys.executable, "-m", "tests.compiled_kernels", "--targets", str(architecture)]
    here = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, env=here, check=False)
    # It fails where one of them spills registers, or has more shared memory than there is.
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["kernel"] for line in lines} == KERNELS
    assert {line["size"] for line in lines} == {32, 64, 128, 256}
    assert {line["spilled"] for line in lines} == {0}
