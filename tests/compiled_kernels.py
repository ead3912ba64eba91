"""Compile the kernels for GPUs that are not there, and say what each needs. A program: Triton must not interpret here.

python -m tests.compiled_kernels                              some, for A100 (sm_80) and H100 (sm_90): a minute
python -m tests.compiled_kernels --all --kinds everything     every size, type and power of the weights: ten minutes
python -m tests.compiled_kernels --all                        and every kind of graph by itself: an hour

What would be launched is compiled to machine code by ptxas instead, with the arguments that a call has. Each kernel is
a line of JSON: shared memory, registers, and the bytes that a thread keeps in memory for want of registers. It ends
with an error if one of them has too much of the first, or any of the last.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver, jit

from sparsefinder import Graph, Layout
from sparsefinder.attending.api import checked
from sparsefinder.attending.triton import attend
from sparsefinder.core.layout import Grid
from sparsefinder.core.pieces import Buckets, Near, Rule

# Tokens and heads. Triton makes other code for a number that is 1 or a multiple of 16: so one case has others.
SHAPE, OTHER = (256, 2), (250, 1)
SIZES, ALPHAS = (32, 64, 128, 256), (1.5, 2.0, None)
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
KINDS = ("all pairs", "window", "blocks", "pairs", "buckets", "rule", "near", "two", "everything")
TARGETS = (80, 90)
# What a block of threads gets of an A100 is 163 KB, of an H100 227 KB, and of the smaller cards of both kinds 99 KB.
MOST_SHARED = 99 * 1024
# Every size, type, power and kernel once, with the least and with the most that is asked of a pair.
SOME = (
    (64, torch.bfloat16, 1.5, "all pairs"),
    (128, torch.bfloat16, None, "everything"),
    (256, torch.float16, 2.0, "blocks"),
    (32, torch.float32, 1.5, "rule"),
    (256, torch.float32, None, "everything"),
    (64, torch.float16, 2.0, "buckets"),
    (64, torch.bfloat16, 1.5, "window", *OTHER),
    (64, torch.bfloat16, None, "everything"),
)


class NoDriver:
    """Says which GPU there is."""

    def __init__(self, architecture: int) -> None:
        self.target = GPUTarget("cuda", architecture, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def graph_of(kind: str, grid: Grid) -> Graph | None:
    batch, heads, n, m = grid.shape
    codes = torch.ones(batch, heads, n, 16, dtype=torch.int8)
    buckets = Buckets(
        torch.zeros(batch, heads, n, 2, dtype=torch.long), torch.zeros(batch, heads, m, 1, dtype=torch.long)
    )
    rule = Rule(
        codes, codes, torch.zeros(batch, heads, n, dtype=torch.int32), grid, torch.full((heads,), 16), among=buckets
    )
    near = Near(torch.zeros(batch, heads, n, 8), torch.zeros(batch, heads, m, 8), torch.ones(heads))
    flags = torch.ones(batch, heads, n, dtype=torch.bool)
    blocks = Graph.blocks(torch.ones(batch, heads, -(-n // 64), -(-m // 64), dtype=torch.bool), 64, grid)
    made = {
        "window": Graph.band(-50, 50, grid),
        "blocks": blocks,
        "pairs": Graph.of_dense(torch.ones(batch, heads, n, m, dtype=torch.bool).tril(), grid),
        "buckets": Graph(grid, (buckets,)),
        "rule": Graph(grid, (rule,)),
        "near": Graph(grid, (near,)),
        "two": Graph(grid, (rule, near)),
        "everything": Graph(grid, (buckets, rule, near)) | Graph.columns(flags, grid) | Graph.rows(flags, grid)
        | Graph.band(-50, 50, grid) | blocks,
    }  # fmt: skip
    return made.get(kind)


def needs(said: str) -> dict[str, int]:
    """Registers of a thread, and the bytes that it writes to memory for want of them: as the assembler says."""
    (registers,), (spilled,) = re.findall(r"Used (\d+) registers", said), re.findall(r"(\d+) bytes spill stores", said)
    return {"registers": int(registers), "spilled": int(spilled)}


def compiled(
    architecture: int,
    size: int,
    dtype: torch.dtype,
    alpha: float | None,
    kind: str,
    n: int = SHAPE[0],
    heads: int = SHAPE[1],
) -> Iterator[dict[str, Any]]:
    """What the kernels of one call need, forward and backward; `alpha` None is one for each head."""
    made: list[dict[str, Any]] = []
    launch = jit.JITFunction.run

    def compile_only(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        kernel.device_caches.clear()
        with redirect_stdout(StringIO()) as said:
            found = launch(kernel, *arguments, grid=grid, warmup=True, **named)
        made.append({
            "architecture": architecture, "size": size, "dtype": str(dtype), "alpha": alpha, "kind": kind, "n": n,
            "kernel": kernel.__name__, "shared": found.metadata.shared, **needs(said.getvalue()),
        })  # fmt: skip

    driver.set_active(NoDriver(architecture))
    # What was compiled before would say nothing.
    knobs.nvidia.dump_ptxas_log = knobs.compilation.always_compile = True
    q, k, v = (torch.zeros(1, count, n, size, dtype=dtype, requires_grad=True) for count in (heads, 1, 1))
    layout = Layout(causal=True)
    alphas: float | Tensor = torch.full((heads,), 1.4, requires_grad=True) if alpha is None else alpha
    call = checked(q, k, v, graph_of(kind, layout.of(q, k)), alphas, layout, None, None, 0.0)
    with patch.object(jit.JITFunction, "run", compile_only):
        attend.run(call).sum().backward()
    yield from made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--targets", type=int, nargs="*", default=TARGETS)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--sizes", type=int, nargs="*", choices=SIZES, default=SIZES)
    parser.add_argument("--types", nargs="*", choices=TYPES, default=tuple(TYPES))
    asked = parser.parse_args()
    types = [TYPES[name] for name in asked.types]
    cases = tuple(itertools.product(asked.sizes, types, ALPHAS, asked.kinds)) if asked.all else SOME
    wrong = 0
    for case in cases:
        for architecture in asked.targets:
            for line in compiled(architecture, *case):
                print(json.dumps(line), flush=True)
                wrong += line["shared"] > MOST_SHARED or line["spilled"] > 0
    raise SystemExit(f"{wrong} kernels do not fit" if wrong else 0)
