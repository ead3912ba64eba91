"""How long the sweep of sparsity and recall takes: a slice of the paper's grid for masked LM, and the whole from it.

    python benchmarks/sweep.py                        # random queries and keys, 1.6 % of pairs gold
    python benchmarks/sweep.py --traces RUN/traces/valid

The grid is that of the appendix (22 windows, every method and setting); the whole is 12 layers × 12 heads on 100
sequences of 512 tokens. Starting processes takes the same time for any number of sequences, so two slices are measured
and the difference counts.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder.lab.bench.clock import interleaved, ratio, seconds_of
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.grids import GRIDS
from sparsefinder.lab.sweep.masks import Masks, masks_of
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.lab.sweep.run_finders import RunFinders
from sparsefinder.lab.sweep.tally import GoldPairs, tally
from sparsefinder.learning.sample import Sample
from sparsefinder.traces.store import Traces
from sparsefinder.traces.writer import TraceWriter

HEADS, LENGTH, D = 12, 512, 64
WHOLE = 144 * 100 * LENGTH * LENGTH
GRID = GRIDS["mlm-appendix"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="a folder of traces, instead of random queries and keys")
    parser.add_argument("--sequences", type=int, nargs=2, default=[2, 8], help="of the smaller and the larger slice")
    parser.add_argument("--layers", type=int, default=2, help="of the random traces")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", action="store_true", help="only the time of each method, in one process")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path)
        for name in ("train", "valid"):
            if arguments.traces is not None:
                (folder / "traces").mkdir(exist_ok=True)
                (folder / "traces" / name).symlink_to(arguments.traces.resolve())
            else:
                _write(folder / "traces" / name, arguments.layers, arguments.sequences[1])
        spent = seconds_of(partial(fit, folder, _recipe(arguments.sequences[1], arguments.processes)))
        print(f"fitting to the slice (not part of the sweep): {spent:.1f} s")
        torch.set_num_threads(1)
        if arguments.methods:
            _by_method(folder)
        else:
            _slices(folder, arguments.sequences, arguments.processes)
        _windows(folder)


def _slices(folder: RunFolder, sequences: list[int], processes: int) -> None:
    """Two slices in turn, the faster of two runs of each: other work on the machine only makes them slower."""

    def run(count: int) -> None:
        for file in (folder / "points/recall").glob("*.parquet"):
            file.unlink()
        sweep_recall(folder, _recipe(count, processes))

    both = interleaved(*(partial(run, count) for count in sequences), repeats=2, warm_up=False)
    for count, times in zip(sequences, both, strict=True):
        print(f"{count} sequences: {', '.join(f'{each:.1f}' for each in times)} s")
    seconds = [min(times) for times in both]
    traces = Traces.open(folder / "traces/valid")
    heads = sum(site["heads"] for site in traces.index["sites"])
    n = next(iter(traces.samples(*traces.sites[0], 1))).q.shape[2]
    pairs = heads * (sequences[1] - sequences[0]) * n * n
    spent = seconds[1] - seconds[0]
    whole = seconds[0] + spent * (WHOLE / pairs)
    points = len(GRID.settings) * len(GRID.windows) * 144
    own, child = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"{len(GRID.settings)} settings × {len(GRID.windows)} windows × {heads} heads, {processes} processes")
    print(f"{pairs * len(GRID.settings) / spent / 1e6:.0f} million pairs and settings a second")
    print(f"whole grid: {whole / 60:.1f} minutes, {points} points, {points / whole:.0f} points a second")
    print(f"peak memory: {own + processes * child:.0f} MB ({own:.0f} here, {child:.0f} in a worker)")


def _by_method(folder: RunFolder) -> None:
    """What a pass of each setting costs, in nanoseconds a pair: to predict, and to count."""
    sample, finders = _sample(folder), RunFinders(folder, 0)
    make_gold = partial(GoldPairs, sample, GRID.windows, GRID.globals)
    gold, seconds = make_gold(), seconds_of(make_gold)
    pairs = sample.q.shape[0] * sample.q.shape[1] * sample.q.shape[2] * sample.k.shape[2]
    print(f"gold graphs: {1e9 * seconds / pairs:.2f} ns, {len(gold.keys) / pairs:.2%} gold")
    site = finders.traces.sites[0]
    families: dict[str, list[Any]] = {}
    for setting in GRID.settings:
        families.setdefault(setting.family.name, []).append(finders.at(setting, site))
    for name, some in families.items():
        predicted = masks_of(some, sample)
        both = interleaved(
            partial(masks_of, some, sample),
            partial(_count, predicted, gold),
            repeats=3,
        )
        predict, count = (1e9 * median(times) / pairs for times in both)
        print(f"{name:50} {predict:7.2f} + {count:5.2f} ns")


def _count(predicted: list[Masks], gold: GoldPairs) -> None:
    for masks in predicted:
        tally(masks, gold)


def _windows(folder: RunFolder) -> None:
    """What a window more costs: passes with all windows and with two, in turn."""
    sample, finders = _sample(folder), RunFinders(folder, 0)
    setting = next(each for each in GRID.settings if each.method == "kmeans")
    finder = finders.at(setting, finders.traces.sites[0])
    many, few = (GoldPairs(sample, windows, GRID.globals) for windows in (GRID.windows, GRID.windows[:2]))

    def run(gold: GoldPairs) -> None:
        _count(masks_of([finder], sample), gold)

    times = interleaved(partial(run, many), partial(run, few), repeats=15)
    share = (ratio(*times).middle - 1) / (len(GRID.windows) - 2)
    print(f"a window more costs {share:.2%} of a pass ({setting.name}: {1000 * median(times[1]):.0f} ms)")


def _sample(folder: RunFolder) -> Sample:
    traces = Traces.open(folder / "traces/valid")
    return next(iter(traces.samples(*traces.sites[0], 4)))


def _recipe(sequences: int, processes: int) -> Recipe:
    return Recipe.model_validate({
        "name": "benchmark",
        "task": {"kind": "masked-lm", "data": {"train": "", "valid": ""}, "model": {}},
        "fit": {"restarts": 1, "tokens": 2000},
        "sweep": {"grid": "mlm-appendix", "sequences": sequences, "processes": processes},
    })  # fmt: skip


def _write(path: Path, layers: int, sequences: int) -> None:
    """Random queries and keys, of a size that makes 1.6 % of the pairs gold."""
    generator = torch.Generator().manual_seed(0)
    with TraceWriter(path) as writer:
        for layer in range(layers):
            q, k = (torch.randn(sequences, HEADS, LENGTH, D, generator=generator) for _ in range(2))
            writer.add("encoder", layer, 1.3 * q, 1.3 * k)


if __name__ == "__main__":
    main()
