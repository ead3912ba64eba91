"""How fast entmax attention is on a GPU beside torch's softmax attention there, and how much memory it takes.

    python benchmarks/gpu.py                     a table, also written to gpu.md
    python benchmarks/gpu.py --lengths 8192 --out here.md

Every row is one run: both functions in turn, again and again. Where there is no GPU, it says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import Graph, Layout, Sample, attention
from sparsefinder.finders import BlockTopK, Finder, KMeans, Sketch, Window
from sparsefinder.lab.bench.clock import interleaved, ratio

HEADS, D, REPEATS, MIB = 16, 64, 20, 1 << 20
CAUSAL = Layout(causal=True)
TITLE = ("n", "work", "backend", "pairs", "finding, ms", "ms", "softmax, ms", "softmax / ours", "MiB")
NO_GPU = (
    "There is no GPU that torch can use here, so that there is nothing to measure: benchmarks/roofline.py estimates."
)


def inputs(n: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, n, D, generator=generator).to("cuda", torch.bfloat16) for _ in range(3))
    return 3 * q, k, v


def finders(q: Tensor, k: Tensor) -> dict[str, Finder | None]:
    """Of each kind of graph one, and none."""
    some = slice(0, 1024)
    samples = [Sample(q[:, :, some].float(), k[:, :, some].float())]
    centroids = torch.randn(HEADS, 64, D, device=q.device)
    return {
        "all pairs": None,
        "window of 1,025": Window(1025),
        "32 blocks of 64": BlockTopK(64, 32),
        "k-means, 64 clusters": KMeans(64, centroids=centroids),
        "sketch, r = 16": Sketch(16, slack=2.0).fit(samples).to(q.device),
    }


def waited(run: Callable[[], object]) -> Callable[[], None]:
    """The same until the device is done."""

    def whole() -> None:
        run()
        torch.cuda.synchronize()

    return whole


def trained(run: Callable[..., Tensor], given: tuple[Tensor, ...]) -> Callable[[], object]:
    leaves = [x.clone().requires_grad_() for x in given]
    return lambda: torch.autograd.grad(run(*leaves).sum(), leaves)


def rows(n: int) -> Iterator[list[str]]:
    given = inputs(n)
    q, k, _ = given

    softmax = partial(scaled_dot_product_attention, is_causal=True)
    for name, finder in finders(q, k).items():
        graph: Graph | None = None
        finding = 0.0
        if finder is not None:
            finding = min(interleaved(waited(partial(finder, q, k, CAUSAL)), repeats=REPEATS)[0])
            graph = finder(q, k, CAUSAL)
        for backend in ("triton",) if finder is not None else ("adasplash", "triton"):
            ours = partial(attention, graph=graph, layout=CAUSAL, backend=backend)
            for training in (False, True):
                runs = [trained(run, given) if training else partial(run, *given) for run in (softmax, ours)]
                times = interleaved(*(waited(run) for run in runs), repeats=REPEATS)
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                waited(runs[1])()
                memory = (torch.cuda.max_memory_allocated() - before) / MIB
                share = "100 %" if graph is None else f"{100 - 100 * float(graph.sparsity().mean()):.1f} %"
                work = f"{name}, {'training' if training else 'forward'}"
                yield [
                    f"{n:,}", work, backend, share, f"{1e3 * finding:.2f}",
                    f"{1e3 * min(times[1]):.2f}", f"{1e3 * min(times[0]):.2f}", str(ratio(*times)), f"{memory:.0f}",
                ]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="*", default=[2_048, 8_192, 32_768])
    parser.add_argument("--out", type=Path, default=Path("gpu.md"))
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print(NO_GPU)
        sys.exit()
    lines = [f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, {HEADS} heads of {D}, bfloat16, causal.", ""]
    lines += [f"| {' | '.join(TITLE)} |", "|---" * len(TITLE) + "|"]
    print("\n".join(lines))
    for n in asked.lengths:
        for row in rows(n):
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
            asked.out.write_text("\n".join(lines) + "\n")
