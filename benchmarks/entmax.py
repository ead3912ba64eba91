"""Our entmax against the `entmax` package's, which sorts: forward, and forward with backward.

python benchmarks/entmax.py --rows 49152 --keys 512
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

# Run as a script, this file would hide the package of the same name that it measures.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import entmax as peer

from sparsefinder import entmax
from sparsefinder.lab.bench.clock import interleaved, ratio

# The name in the table, of how many rows one is taken (bisection takes its time), the peer's function, ours.
CASES: list[tuple[str, int, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    ("1.5", 1, lambda x: peer.entmax15(x, -1), lambda x: entmax(x, 1.5)),
    ("2", 1, lambda x: peer.sparsemax(x, -1), lambda x: entmax(x, 2.0)),
    ("1.25", 16, lambda x: peer.entmax_bisect(x, 1.25), lambda x: entmax(x, 1.25)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=8 * 12 * 512, help="rows of scores (8 sequences, 12 heads, n = 512)"
    )
    parser.add_argument("--keys", type=int, default=512, help="scores in a row")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    everything = torch.randn(given.rows, given.keys, generator=torch.Generator().manual_seed(0))
    slopes = torch.randn_like(everything)
    print(f"({given.rows}, {given.keys}) float32 scores ~ N(0, 1), {torch.get_num_threads()} threads of torch")
    print(f"{'alpha':6}{'pass':20}{'entmax package':>16}{'sparsefinder':>16}   times as fast (middle half)")
    for alpha, share, theirs, ours in CASES:
        scores, upstream = everything[: given.rows // share], slopes[: given.rows // share]
        for name, run in (("forward", forward), ("forward + backward", backward)):
            slow, fast = interleaved(
                partial(run, theirs, scores, upstream), partial(run, ours, scores, upstream), repeats=given.repeats
            )
            print(f"{alpha:6}{name:20}{median(slow) * 1e3:13.0f} ms{median(fast) * 1e3:13.0f} ms   {ratio(slow, fast)}")
            print(json.dumps({"alpha": alpha, "pass": name, "peer_s": slow, "ours_s": fast}))


def forward(function: Callable[[Tensor], Tensor], scores: Tensor, _: Tensor) -> Tensor:
    return function(scores)


def backward(function: Callable[[Tensor], Tensor], scores: Tensor, upstream: Tensor) -> Tensor:
    leaf = scores.detach().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf, upstream)[0]


if __name__ == "__main__":
    main()
