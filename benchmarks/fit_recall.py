"""What `Sparsefinder.fit(recall=...)` takes, and whether new text has the recall that was asked for.

    python benchmarks/fit_recall.py MODEL TRAIN.txt TEST.txt > table.md

Projections are learned before and given, so that the time is that of fitting and of setting dials. The time per method
stands beside that of recording the same sequences, which is the teacher's own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.recall import record
from sparsefinder import Fitting, GraphMetrics, Sparsefinder, Traces
from sparsefinder.lab.bench.clock import seconds_of
from sparsefinder.learning.learn import learn
from sparsefinder.learning.projection import Projection
from sparsefinder.traces.store import Site

# K-means starts anew so often, for both methods that cluster.
HOW = Fitting(restarts=3)
SETTINGS: dict[str, dict[str, Any]] = {
    "sketch": {"r": 8}, "distance": {}, "probe": {"clusters": 32}, "kmeans": {"clusters": 16},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an entmax model")
    parser.add_argument("train", type=Path, help="text to fit on")
    parser.add_argument("test", type=Path, help="text to measure on")
    parser.add_argument("--sequences", type=int, default=40, help="to fit and choose on")
    parser.add_argument("--held-out", type=int, default=16, help="of the other text, to measure on")
    parser.add_argument("--recall", type=float, default=0.95)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = {"train": (arguments.train, arguments.sequences), "test": (arguments.test, arguments.held_out)}
        traces: dict[str, Traces] = {}

        def trace(name: str) -> None:
            traces[name] = record(arguments.model, *texts[name], Path(folder) / name, None)

        recorded = seconds_of(partial(trace, "train"))
        trace("test")
        maps = {site: learn(traces["train"].samples(*site, 16, seed=0)) for site in traces["train"].sites}
        print(f"recording {arguments.sequences} sequences: {recorded:.1f} s\n")
        print("| method | seconds | recall there | recall on the other text | sparsity there | on the other text |")
        print("|---|---|---|---|---|---|")
        for method, settings in SETTINGS.items():
            found: list[Sparsefinder] = []
            seconds = seconds_of(partial(_fit, traces["train"], method, arguments.recall, maps, settings, found))
            print(f"| {method} | {seconds:.1f} | {' | '.join(_reached(found[0], traces['test']))} |", flush=True)


def _fit(
    traces: Traces,
    method: str,
    recall: float,
    maps: dict[Site, Projection],
    settings: dict[str, Any],
    found: list[Sparsefinder],
) -> None:
    found.append(Sparsefinder.fit(traces, method, recall=recall, projections=maps, how=HOW, progress=False, **settings))


def _reached(fitted: Sparsefinder, test: Traces) -> tuple[str, str, str, str]:
    """Recall and sparsity, means over layers and heads: on the sequences that were chosen on, and on others."""
    metrics = GraphMetrics()
    for site, finder in fitted.items():
        for sample in test.samples(*site, 4):
            metrics.update(finder(sample.q, sample.k, sample.layout), sample.gold, site)
    scores = metrics.compute()
    recall, sparsity = (
        float(torch.tensor([site[ratio] for site in fitted.about["sites"]]).mean()) for ratio in ("recall", "sparsity")
    )
    return f"{recall:.3f}", f"{scores.recall:.3f}", f"{sparsity:.3f}", f"{scores.sparsity:.3f}"


if __name__ == "__main__":
    main()
