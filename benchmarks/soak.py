"""Attention called for an hour (or --minutes) from 4 threads with every kind of graph: memory and answers.

python benchmarks/soak.py --minutes 60
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import torch

from sparsefinder import GlobalTokens, Layout, Window, attention
from sparsefinder.finders import Finder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    counts, wrong = [0] * given.threads, [0] * given.threads
    threads = [
        threading.Thread(target=_work, args=(number, until, counts, wrong), daemon=True)
        for number in range(given.threads)
    ]
    for thread in threads:
        thread.start()
    started, said = time.monotonic(), 0.0
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        minutes = (time.monotonic() - started) / 60
        if minutes - said >= max(given.minutes / 12, 0.25):
            said = minutes
            print(f"{minutes:.1f} min: {sum(counts):,} calls, {sum(wrong)} wrong, {_resident():.0f} MB", flush=True)
    print(f"{sum(counts):,} calls and backward passes, {sum(wrong)} wrong, {_resident():.0f} MB at the end")
    raise SystemExit(1 if any(wrong) else 0)


def _work(number: int, until: float, counts: list[int], wrong: list[int]) -> None:
    generator = torch.Generator().manual_seed(number)
    finders: list[Finder | None] = [None, Window(31), Window(11) | GlobalTokens(1)]
    while time.monotonic() < until:
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
