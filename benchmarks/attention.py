"""How fast entmax attention is beside torch's softmax attention, on this machine's CPU.

    python benchmarks/attention.py                 everything: some minutes
    python benchmarks/attention.py train blocks    only some kinds of work
    python benchmarks/attention.py --json          one JSON object a line instead of a table

Every row is one run: both functions in turn, again and again, so that a slow moment of the machine hits both. Given are
the medians, the ratio, and between which ratios the middle half of the turns lay. Memory is what a first call needs on
top of its inputs and of what earlier calls have left in place.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import Graph, Layout, attention
from sparsefinder.attending.native import counting
from sparsefinder.lab.bench.clock import Spread, interleaved, ratio, seconds_of, turns_within

HEADS = 8
SECONDS = 3.0  # about as long each row may take, after the warm-up
PATIENCE = 20.0  # a row whose functions take longer than this is measured once

Function = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One row: what is measured, what it is measured against, and what else is worth saying."""

    name: str
    ours: Function
    softmax: Function
    ideal: float | None = None  # how many times fewer pairs the graph has than there are
    dense: Function | None = None  # our own dense attention, where that is the measure
    note: Callable[[], str] = str
    bytes_read: int | None = None  # what cannot but be read, where that is the limit


def inputs(n: int, m: int, d: int, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, size, d, generator=generator) for size in (n, m, m))
    return q * spread, k, v


def forward_cases() -> Iterator[Case]:
    for d in (64, 32, 128):
        for n in (512, 1024, 2048, 4096, 8192, 16384) if d == 64 else (1024, 4096, 16384):
            for causal in (False, True):
                q, k, v = inputs(n, n, d)
                yield Case(
                    f"forward d={d} n={n}{' causal' if causal else ''}",
                    partial(attention, q, k, v, layout=Layout(causal=causal)),
                    partial(scaled_dot_product_attention, q, k, v, is_causal=causal),
                )


def train_cases() -> Iterator[Case]:
    for d in (64, 32, 128):
        for n in (512, 1024, 2048, 4096, 8192) if d == 64 else (1024, 4096):
            for causal in (False, True):
                q, k, v = (x.requires_grad_() for x in inputs(n, n, d))
                grad = torch.ones_like(q)

                def step(function: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> None:
                    torch.autograd.grad(function(q, k, v), (q, k, v), grad)

                ours, softmax = (
                    partial(attention, layout=Layout(causal=causal)),
                    partial(scaled_dot_product_attention, is_causal=causal),
                )
                name = f"train d={d} n={n}{' causal' if causal else ''}"
                yield Case(name, partial(step, ours, q, k, v, grad), partial(step, softmax, q, k, v, grad))


def graph_case(name: str, q: Tensor, k: Tensor, v: Tensor, graph: Graph, ideal: float) -> Case:
    """Attention over a graph, beside softmax and beside our own that computes all pairs."""
    softmax = partial(scaled_dot_product_attention, q, k, v)
    return Case(name, partial(attention, q, k, v, graph), softmax, ideal, every_score(q, k, v))


def every_score(q: Tensor, k: Tensor, v: Tensor) -> Function:
    """Our attention with a float32 score for each pair: as a graph, where nothing is ruled out before."""
    return partial(attention, q, k, v, Graph.full(Layout().of(q, k)))


def block_cases() -> Iterator[Case]:
    for n in (1024, 4096, 8192):
        q, k, v = inputs(n, n, 64)
        blocks = n // 64
        kept = max(1, round(blocks * 0.1))
        order = torch.rand(1, HEADS, blocks, blocks, generator=torch.Generator().manual_seed(1)).argsort(-1)
        graph = Graph.blocks(order < kept, 64, Layout().of(q, k))
        yield graph_case(f"blocks of 64, 90 % sparse, n={n}", q, k, v, graph, blocks / kept)


def bucket_cases() -> Iterator[Case]:
    n = 4096
    for buckets, probes in ((64, 1), (16, 1), (64, 4)):
        q, k, v = inputs(n, n, 64)
        generator = torch.Generator().manual_seed(1)
        keys = torch.rand(1, HEADS, n, generator=generator).argsort(-1)[..., None] % buckets
        queries = torch.rand(1, HEADS, n, buckets, generator=generator).argsort(-1)[..., :probes]
        graph = Graph.buckets(queries, keys, Layout().of(q, k))
        yield graph_case(f"buckets, {buckets} of them, {probes} a query, n={n}", q, k, v, graph, buckets / probes)


def decode_cases() -> Iterator[Case]:
    for m in (1024, 4096, 16384, 65536):
        q, k, v = inputs(1, m, 64)

        def reading(k: Tensor, v: Tensor) -> str:
            """How fast memory can be read at all, right now: the limit of decoding."""
            (times,) = interleaved(lambda: (k.sum(), v.sum()), repeats=20, warm_up=False)
            gigabytes = 20 * 2 * k.numel() * k.element_size() / 1e9
            return f"keys summed at {gigabytes / sum(times):.0f} GB/s"

        yield Case(
            f"decode 1 query, m={m}",
            partial(attention, q, k, v),
            partial(scaled_dot_product_attention, q, k, v),
            note=partial(reading, k, v),
            bytes_read=k.numel() * k.element_size(),
        )


def exact_cases() -> Iterator[Case]:
    for n, spread, what in ((4096, 3.0, "small support"), (8192, 3.0, "small support"), (4096, 1.0, "structureless")):
        q, k, v = inputs(n, n, 64, spread)

        def share(q: Tensor, k: Tensor, v: Tensor) -> str:
            with counting() as counted:
                attention(q, k, v)
            return f"{float(counted.pairs.sum()) / (HEADS * q.shape[2] * k.shape[2]):.1%} of pairs computed"

        yield Case(
            f"exact, {what}, n={n}",
            partial(attention, q, k, v),
            partial(scaled_dot_product_attention, q, k, v),
            None,
            every_score(q, k, v),
            partial(share, q, k, v),
        )


def long_cases() -> Iterator[Case]:
    n = 65536
    q, k, v = inputs(n, n, 64)
    yield Case(f"long n={n}", partial(attention, q, k, v), partial(scaled_dot_product_attention, q, k, v))


CASES = {
    "forward": forward_cases, "train": train_cases, "blocks": block_cases, "buckets": bucket_cases,
    "decode": decode_cases, "exact": exact_cases, "long": long_cases,
}  # fmt: skip


def memory_of(function: Function) -> float:
    """How many MB the process grew by at the most while the function ran."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    function()
    return (_status("VmHWM") - before) / 1024


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(case: Case) -> dict[str, Any]:
    functions = {"ours": case.ours, "softmax": case.softmax} | ({"dense": case.dense} if case.dense else {})
    memory: dict[str, float] = {}
    # The first calls, whose memory is looked at, are the warm-up.
    spent = seconds_of(lambda: memory.update({name: memory_of(function) for name, function in functions.items()}))
    turns = turns_within(SECONDS, *functions.values()) if spent < PATIENCE else 1
    times = dict(zip(functions, interleaved(*functions.values(), repeats=turns, warm_up=False), strict=True))
    ratios = ratio(times["softmax"], times["ours"])
    middle = {name: 1000 * Spread.of(each).middle for name, each in times.items()}
    row: dict[str, Any] = {
        "name": case.name, "softmax_ms": middle["softmax"], "ours_ms": middle["ours"],
        "ratio": middle["softmax"] / middle["ours"], "ratio_low": ratios.low, "ratio_high": ratios.high, "turns": turns,
        "softmax_mb": memory["softmax"], "ours_mb": memory["ours"], "note": case.note(),
    }  # fmt: skip
    if case.bytes_read:
        row["gigabytes_a_second"] = case.bytes_read / middle["ours"] / 1e6
        row["note"] = f"{row['gigabytes_a_second']:.0f} GB/s, {row['note']}"
    if case.dense:
        row["to_dense"] = middle["dense"] / middle["ours"]
        row["note"] = f"{row['to_dense']:.2f}× our dense" + (f", {row['note']}" if row["note"] else "")
    if case.dense and case.ideal:
        row["of_ideal"] = middle["dense"] / middle["ours"] / case.ideal
        row["note"] = f"{row['note']}, {row['of_ideal']:.0%} of ideal"
    return row


def machine() -> str:
    """The processor, in a line."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    threads = torch.get_num_threads()
    name = names[0] if names else platform.processor()
    return f"{name}, {threads} threads, torch {torch.__version__}, float32, {HEADS} heads"


def main() -> None:
    parser = argparse.ArgumentParser(description="Entmax attention beside softmax attention.")
    parser.add_argument("words", nargs="*", choices=[[], *CASES], help="kinds of work; all if none")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    arguments = parser.parse_args()
    if arguments.json:
        print(json.dumps({"machine": machine()}))
    else:
        print(f"{machine()}\n")
        print("| work | softmax ms | ours ms | ratio | middle half | extra MB, softmax | ours | |")
        print("|---|---|---|---|---|---|---|---|")
    for family, cases in CASES.items():
        words = arguments.words
        if words and family not in words:
            continue
        for case in cases():
            row = measure(case)
            if arguments.json:
                print(json.dumps(row), flush=True)
                continue
            print(
                "| {name} | {softmax_ms:.2f} | {ours_ms:.2f} | {ratio:.2f} | {ratio_low:.2f}–{ratio_high:.2f} |"
                " {softmax_mb:.0f} | {ours_mb:.0f} | {note} |".format(**row),
                flush=True,
            )


if __name__ == "__main__":
    main()
