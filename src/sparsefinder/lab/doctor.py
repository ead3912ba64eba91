"""What runs here and why: the backend of attention, its instructions, threads, and from which length finders pay.

>>> examine(RunFolder("runs/demo-mlm")).broken
False
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from .. import compiled
from ..attending import attention
from ..attending.api import BACKENDS, checked, choose
from ..attending.native import LEAST_SCREENED
from ..core.graph import Graph
from ..core.layout import Layout
from ..finders import Sketch, Window
from ..learning.sample import Sample
from .bench.crossover import by_length, pays_from
from .bench.points import read_bench
from .bench.synthetic import Trial, trial
from .folder import RunFolder, versions

__all__ = ["Examined", "Line", "examine"]

WIDTH = 80
# About how long made-up queries and keys are timed.
SECONDS = 8.0
# Values of about 1, weights from scores in float32.
TOLERANCE = 1e-4
MARKS = {"well": "✓", "warning": "!", "broken": "✗", "note": " "}
WHAT = {
    "native": "the C++ kernel, the fast one on a CPU",
    "adasplash": "AdaSplash, made for all pairs on a GPU",
    "triton": "Triton kernels that visit the tiles of a graph",
    "flex": "FlexAttention, for softmax over graphs on a GPU",
    "portable": "torch operations: correct on any device, and many times as slow as the kernel",
    "reference": "one dense matrix: the oracle of tests",
}
# What each takes, as their `refusal` says; docs/gpu.md has the same table.
TAKES = ("graphs", "decoding", "α = 1", "α > 2", "α per head", "bias", "float64")
TABLE = {
    "native": ("CPU", True, True, True, True, True, False, False),
    "adasplash": ("GPU", False, False, False, False, False, False, False),
    "triton": ("GPU", True, True, False, True, True, False, False),
    "flex": ("GPU", False, False, True, False, False, False, False),
    "portable": ("any", True, True, True, True, True, True, True),
    "reference": ("any", True, True, True, True, True, True, True),
}
KERNEL = "SPARSEFINDER_KERNEL"


@dataclass(frozen=True)
class Line:
    """Something that was looked at: "well", a "warning", "broken", a "note", or a "row" of a table."""

    state: str
    words: str

    def __str__(self) -> str:
        if self.state == "row":
            return f"  {self.words}"
        mark = MARKS[self.state]
        return textwrap.fill(self.words, WIDTH, initial_indent=f"{mark} ", subsequent_indent="  ")


@dataclass(frozen=True)
class Examined:
    """What was found."""

    lines: list[Line]

    @property
    def broken(self) -> bool:
        return any(line.state == "broken" for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


def examine(folder: RunFolder | None = None, measure: Callable[[float], Trial] | None = None) -> Examined:
    """Look at everything. Times are those of the run's benchmark, if it has one, or of made-up queries and keys.

    measure: what is asked for such, given so many seconds.
    """
    found = [_versions(), *_kernel(), *_backends(), *_threads()]
    rows = [] if folder is None else read_bench(folder)
    if rows:
        assert folder is not None
        return Examined([*found, *_of_run(folder, rows)])
    if folder is not None:
        words = f"{folder.path} has no benchmark yet: `sparsefinder bench {folder.path}` makes one."
        found.append(Line("note", words))
    return Examined([*found, *_made_up((measure or trial)(SECONDS))])


def _versions() -> Line:
    named = ("sparsefinder", "python", "torch", "transformers", "numpy")
    there = versions()
    return Line("note", ", ".join(f"{name} {there[name]}" for name in named if name in there))


def _kernel() -> list[Line]:
    """Whether the compiled kernel is there, what it computes with, and whether it is right."""
    if compiled.module is None:
        if find_spec("sparsefinder._native") is not None:
            why = "It was built for another Python or processor, or lacks a library: install sparsefinder again."
            return [Line("broken", f"The compiled kernel is there and cannot be loaded. {why}")]
        why = "A C++20 compiler was missing, or failed, when sparsefinder was installed; with one, install it again."
        return [Line("warning", f"The compiled kernel is not built, so that attention on a CPU is slow. {why}")]
    asked = os.environ.get(KERNEL)
    vectors = compiled.module.has_avx2()
    lines = [_agreement()]
    if asked not in (None, "", "plain"):
        lines.append(Line("warning", f"{KERNEL}={asked} means nothing: it may be `plain`, or not be set."))
    if compiled.plain():
        slow = " although this processor has AVX2: unset it to be several times as fast" if vectors else ""
        lines.append(Line("warning", f"{KERNEL}=plain chooses the kernel without vector instructions{slow}."))
    elif vectors:
        lines.append(Line("well", "It computes with AVX2, the vector instructions of this processor."))
    else:
        lines.append(Line("warning", "It computes without vector instructions: this processor has no AVX2 and FMA."))
    return lines


def _agreement() -> Line:
    """The kernel beside the reference in float64, on small problems."""
    worst, where = 0.0, ""
    for name, difference in _differences():
        # Not a number is worse than any.
        if not difference <= worst:
            worst, where = difference, name
    if worst <= TOLERANCE:
        words = f"The compiled kernel is there and agrees with the reference (to {worst:.0e}, on small problems)."
        return Line("well", words)
    why = "Its results cannot be trusted: install sparsefinder again, and report it if that does not help."
    return Line("broken", f"The compiled kernel is off by {worst:.1e} with {where}. {why}")


def _differences() -> Iterable[tuple[str, float]]:
    generator = torch.Generator().manual_seed(0)
    for n, kinds in ((96, ("all pairs", "a causal mask", "a window", "a rule")), (LEAST_SCREENED, ("exact=True",))):
        q, k, v = (torch.randn(1, 2, n, 16, generator=generator) for _ in range(3))
        sample = Sample(2 * q, k)
        for kind in kinds:
            layout = Layout(causal=kind == "a causal mask")
            graph: Graph | None = None
            if kind == "a window":
                graph = Window(9)(sample.q, k)
            elif kind == "a rule":
                graph = Sketch(4, slack=2.0).fit([sample])(sample.q, k)
            more: dict[str, Any] = {"layout": layout, "exact": kind == "exact=True"}
            ours = attention(sample.q, k, v, graph, backend="native", **more)
            right = attention(sample.q.double(), k.double(), v.double(), graph, backend="reference", **more)
            yield kind, float((ours - right).abs().max())


def _backends() -> list[Line]:
    """Which implementation attention takes by itself, on the CPU and on a GPU, and what each of them can take."""
    assert set(WHAT) == set(TABLE) == set(BACKENDS)
    found = _chosen("cpu", graph=False)
    lines = [Line("well" if found == "native" else "note", f"On the CPU attention runs in `{found}`: {WHAT[found]}.")]
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        for graph in (False, True):
            found = _chosen("cuda", graph)
            how = "note" if found == "portable" else "well"
            over = "a graph" if graph else "all pairs"
            lines.append(Line(how, f"On the GPU ({name}), over {over}, it runs in `{found}`: {WHAT[found]}."))
            if found == "portable":
                lines.append(Line("note", 'Faster there: pip install "sparsefinder[gpu]".'))
    else:
        lines.append(Line("note", "There is no GPU that torch can use."))
    table: list[tuple[str, ...]] = [("", "device", *TAKES)]
    table += [(name, where, *("yes" if each else "–" for each in takes)) for name, (where, *takes) in TABLE.items()]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    rows = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return [*lines, Line("note", "What each backend takes:"), *(Line("row", row) for row in rows)]


def _chosen(device: str, graph: bool) -> str:
    """What "auto" is for a small call."""
    q = torch.zeros(1, 1, 2, 16, dtype=torch.bfloat16 if device == "cuda" else torch.float32, device=device)
    call = checked(q, q, q, Window(1)(q, q) if graph else None, 1.5, Layout(), None, None, 0.0)
    return choose("auto", call).__name__.rpartition(".")[2]


def _threads() -> list[Line]:
    """How many threads compute, and whether that is as many as there are cores."""
    threads, cores, asked = torch.get_num_threads(), _cores(), os.environ.get("OMP_NUM_THREADS")
    said = f"OMP_NUM_THREADS is {asked}" if asked else "OMP_NUM_THREADS is not set"
    here = f"{threads} thread{'s' * (threads != 1)} on {cores} core{'s' * (cores != 1)}; {said}."
    if threads > cores:
        how = f"More threads than cores wait for each other: set OMP_NUM_THREADS={cores}."
        return [Line("warning", f"{here} {how}")]
    if threads < cores:
        how = "Others are idle, unless several processes share them: unset it, or call torch.set_num_threads."
        return [Line("warning", f"{here} {how}")]
    return [Line("well", here)]


def _cores() -> int:
    """The cores that this process may use: of those it is bound to, as many as its container may keep busy."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.is_file():
        most, _, period = quota.read_text().partition(" ")
        if most.isdigit():
            bound = min(bound, max(1, -(-int(most) // int(period))))
    return bound


def _of_run(folder: RunFolder, rows: list[dict[str, Any]]) -> list[Line]:
    threads, here = sorted({row["threads"] for row in rows}), torch.get_num_threads()
    lines = [Line("note", f"From which length finders pay, by the benchmark of {folder.path}:"), *_pays(rows)]
    if threads != [here]:
        counts = " and ".join(map(str, threads))
        lines.append(Line("warning", f"That was measured with {counts} threads, and here are {here}."))
    return lines


def _made_up(tried: Trial) -> list[Line]:
    share = " to ".join(f"{100 * each:.1f}" for each in sorted({min(tried.gold.values()), max(tried.gold.values())}))
    title = (
        f"From which length finders pay, on made-up queries and keys of which entmax gives weight to {share} %. "
        "Trained heads differ: `sparsefinder bench` measures a model."
    )
    lines = [Line("note", title), *_pays(tried.rows)]
    if tried.left_out:
        lines.append(Line("note", f"Not tried, for want of time: {', '.join(tried.left_out)}."))
    return lines


def _pays(rows: list[dict[str, Any]]) -> list[Line]:
    """A table of the finders, those that pay first, and what it says."""
    found = [
        (pays_from(some, "to_full") or math.inf, pays_from(some, "to_softmax"), entry.label, some[-1])
        for entry, some in by_length(rows).items()
        if entry.finds
    ]
    cells = [("", "entmax", "softmax", "tokens", "× entmax", "×softmax", "recall")]
    cells += [
        (
            label[:22], _length(first), _length(second), f"{last['length']:,}", f"{last['to_full']:.2f}",
            f"{last['to_softmax']:.2f}", "–" if last["recall"] is None else f"{last['recall']:.3f}",
        )
        for first, second, label, last in sorted(found, key=lambda one: (one[0], -one[3]["to_full"]))
    ]  # fmt: skip
    table = [f"{'':22} {'faster from, than':>17} {'at the longest length':>26}"]
    table += [f"{name:22} {' '.join(f'{cell:>8}' for cell in rest)}" for name, *rest in cells]
    why = (
        "Faster from: the least length from which finding and attending together take less time than attention over "
        "all pairs, with entmax and with torch's softmax; – where that is at none of the lengths measured."
    )
    return [*(Line("row", each) for each in table), Line("note", why)]


def _length(found: float | None) -> str:
    return "–" if found is None or math.isinf(found) else f"{found:,.0f}"
