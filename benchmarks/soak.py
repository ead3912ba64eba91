"""Attention called for an hour (or --minutes) from 4 threads with every kind of graph: memory and answers.

python benchmarks/soak.py --minutes 60
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

import torch

from sparsefinder import GlobalTokens, Layout, Window, attention
from sparsefinder.finders import Finder

# How often it says how it is.
PARTS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    counts, wrong, over = [0] * given.threads, [0] * given.threads, threading.Event()
    threads = [
        threading.Thread(target=_work, args=(number, over, counts, wrong), daemon=True)
        for number in range(given.threads)
    ]
    for thread in threads:
        thread.start()
    for part in range(1, PARTS + 1):
        over.wait(60 * given.minutes / PARTS)
        minutes = given.minutes * part / PARTS
        print(f"{minutes:.1f} min: {sum(counts):,} calls, {sum(wrong)} wrong, {_resident():.0f} MB", flush=True)
    over.set()
    for thread in threads:
        thread.join()
    print(f"{sum(counts):,} calls and backward passes, {sum(wrong)} wrong, {_resident():.0f} MB at the end")
    raise SystemExit(1 if any(wrong) else 0)


def _work(number: int, over: threading.Event, counts: list[int], wrong: list[int]) -> None:
    generator = torch.Generator().manual_seed(number)
    finders: list[Finder | None] = [None, Window(31), Window(11) | GlobalTokens(1)]
    while not over.is_set():
        n = int(torch.randint(8, 300, (), generator=generator))
        layout = Layout(causal=bool(counts[number] % 2))
        q, k, v = (torch.randn(1, 2, n, 32, generator=generator).requires_grad_() for _ in range(3))
        finder = finders[counts[number] % len(finders)]
        graph = None if finder is None else finder(q, k, layout)
        out = attention(q, k, v, graph, layout=layout, backend="native")
        out.sum().backward()
        if counts[number] % 16 == 0:
            right = attention(q, k, v, graph, layout=layout, backend="reference")
            wrong[number] += int(not torch.allclose(out, right, atol=1e-4))
        counts[number] += 1


def _resident() -> float:
    """Megabytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
