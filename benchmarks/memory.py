"""What keeping freed memory saves in training: a process that gives it back to the system, and one that keeps it.

    python benchmarks/memory.py                    one masked language model, two causal ones, of 8,000 words
    python benchmarks/memory.py --precision float32 --turns 9

Each is a process of its own, as what is kept belongs to a process. They take turns, a step of training each; given are
medians, between which ratios the middle half of the turns lay, what share of the processor's time the system took, and
the most memory that each had.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import torch

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.training import causal, masked, step_of
from sparsefinder import use_entmax
from sparsefinder.lab.bench.clock import interleaved, ratio
from sparsefinder.lab.memory import keep_freed

SHAPES = {
    "masked, 4 × 512 tokens": {"causal": False, "layers": 6, "width": 384, "heads": 12, "length": 512, "batch": 4},
    "causal, 8 × 512 tokens": {"causal": True, "layers": 4, "width": 256, "heads": 4, "length": 512, "batch": 8},
    "causal, 2 × 2,048 tokens": {"causal": True, "layers": 4, "width": 256, "heads": 4, "length": 2048, "batch": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--step", nargs=2, metavar=("SHAPE", "HOW"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        _serve(_trained(given.step[0], given.precision, given.step[1] == "kept"))
        return
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {given.precision}\n")
    print("| training | given back, ms | kept, ms | times as fast (middle half) | system's share | kept | MB | kept |")
    print("|---" * 8 + "|")
    for shape in SHAPES:
        with ExitStack() as stack:
            both = [stack.enter_context(_process(shape, how, given.precision)) for how in ("given back", "kept")]
            times = interleaved(*(lambda one=one: _ask(one, "step") for one in both), repeats=given.turns)
            (share, most), (kept_share, kept_most) = (map(float, _ask(one, "spent").split()) for one in both)
        before, kept = (1e3 * median(one) for one in times)
        took = f"{before:.0f} | {kept:.0f} | {ratio(*times)} | {share:.0%} | {kept_share:.0%}"
        print(f"| {shape} | {took} | {most:.0f} | {kept_most:.0f} |", flush=True)


def _process(shape: str, how: str, precision: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--precision", precision, "--step", shape, how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    print(what, file=process.stdin, flush=True)
    return process.stdout.readline()


def _serve(step: Callable[[], object]) -> None:
    """Do what is asked for, until nothing is."""
    for line in sys.stdin:
        if line.strip() == "step":
            step()
        spent, most = os.times(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(spent.system / (spent.user + spent.system), most / 1024, flush=True)


def _trained(shape: str, precision: str, kept: bool) -> Callable[[], object]:
    if kept:
        assert keep_freed(), "this system's memory cannot be kept: it takes glibc, and no settings of your own"
    wanted = argparse.Namespace(**SHAPES[shape])
    torch.manual_seed(0)
    model = use_entmax((causal if wanted.causal else masked)(wanted, 7.0), 1.5)
    step = step_of(model, wanted)

    def one() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            step()

    return one


if __name__ == "__main__":
    main()
