"""Attention called for an hour (or --minutes) from 4 threads with every kind of graph: memory and answers.

python benchmarks/soak.py --minutes 60

It ends with 1 if an answer was wrong, if a thread ended before the others, or if memory grew by more than a tenth after
the first of twelve parts.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

import torch

from sparsefinder import GlobalTokens, Layout, Window, attention, finder
from sparsefinder.finders import Finder, KMeans, Sketch
from sparsefinder.learning.sample import Sample

# How often it says how it is, and how much more memory than at first is more than chance.
PARTS, GROWTH = 12, 1.1
HEADS, D = 2, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    counts, checked, wrong = ([0] * given.threads for _ in range(3))
    over = threading.Event()
    threads = [
        threading.Thread(target=_work, args=(number, over, counts, checked, wrong), daemon=True)
        for number in range(given.threads)
    ]
    for thread in threads:
        thread.start()
    resident = []
    for part in range(1, PARTS + 1):
        over.wait(60 * given.minutes / PARTS)
        resident.append(_resident())
        minutes = given.minutes * part / PARTS
        print(f"{minutes:.1f} min: {sum(counts):,} calls, {sum(wrong)} wrong, {resident[-1]:.0f} MB", flush=True)
    alive = sum(thread.is_alive() for thread in threads)
    over.set()
    for thread in threads:
        thread.join()
    print(
        f"{sum(counts):,} calls and backward passes, {sum(checked):,} compared with the reference, {sum(wrong)} wrong; "
        f"{alive} of {len(threads)} threads to the end; {resident[0]:.0f} MB after the first part, "
        f"{resident[-1]:.0f} MB at the end"
    )
    well = not any(wrong) and alive == len(threads) and resident[-1] <= GROWTH * resident[0]
    raise SystemExit(0 if well else 1)


def _finders(generator: torch.Generator) -> list[Finder | None]:
    """One for each kind of graph: all pairs, bands, columns and rows, blocks, buckets, distances, scores, diagonals."""
    samples = [Sample(*torch.randn(2, 1, HEADS, 128, D, generator=generator))]
    learned = Sketch(8, share=0.1).fit(samples), Sketch(8, slack=2.0).fit(samples), KMeans(8).fit(samples)
    return [
        None, Window(31), Window(11) | GlobalTokens(1), finder("bigbird", random_blocks=2, block=16),
        finder("reformer", buckets=8), finder("distance", t=7.0),
        finder("minference", vertical=4, slash=8), *learned,
    ]  # fmt: skip


def _work(number: int, over: threading.Event, counts: list[int], checked: list[int], wrong: list[int]) -> None:
    generator = torch.Generator().manual_seed(number)
    finders = _finders(generator)
    while not over.is_set():
        n, chosen, causal, compared = (
            int(torch.randint(low, high, (), generator=generator))
            for low, high in ((8, 300), (0, len(finders)), (0, 2), (0, 16))
        )
        layout = Layout(causal=bool(causal))
        q, k, v = (torch.randn(1, HEADS, n, D, generator=generator).requires_grad_() for _ in range(3))
        predicts = finders[chosen]
        graph = None if predicts is None else predicts(q, k, layout)
        out = attention(q, k, v, graph, layout=layout, backend="native")
        out.sum().backward()
        if not compared:
            right = attention(q, k, v, graph, layout=layout, backend="reference")
            wrong[number] += int(not torch.allclose(out, right, atol=1e-4))
            checked[number] += 1
        counts[number] += 1


def _resident() -> float:
    """Megabytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
