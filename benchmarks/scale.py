"""What traces, fits and sweeps take by tokens, heads, settings and sequences, with one worker and with two.

python benchmarks/scale.py            # processes of this machine
python benchmarks/scale.py --ray      # tasks of a Ray cluster of this machine
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder.core.layout import Layout
from sparsefinder.lab.bench.clock import seconds_of
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.traces.writer import TraceWriter

LAYERS, HEADS, D = 4, 8, 64
METHODS = [
    {"method": "window"},
    {"method": "kmeans", "clusters": [8, 16]},
    {"method": "sketch", "r": 8, "recall": 0.95},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true", help="the Ray engine instead of the local one")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--sequences", type=int, default=16)
    given = parser.parse_args()
    print(f"{LAYERS} layers of {HEADS} heads of {D}, {given.sequences} sequences to fit on and as many to measure on")
    print("| tokens | workers | traces, MB | written, MB/s | fit, s | sweep, s |\n|---|---|---|---|---|---|")
    for length in given.lengths:
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as place:
                _measure(Path(place), length, given.sequences, workers, given.ray)


def _measure(place: Path, length: int, sequences: int, workers: int, ray: bool) -> None:
    folder = RunFolder(place / "run")
    took = sum(seconds_of(partial(_record, folder / "traces" / part, length, sequences)) for part in ("train", "valid"))
    size = sum(file.stat().st_size for file in (folder / "traces").rglob("*.safetensors")) / 1e6
    written = size / took
    recipe = _recipe(workers, "ray" if ray else "local")
    if ray:
        import ray as cluster

        cluster.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    times = []
    # The first time also starts processes and imports.
    for turn in range(2):
        for name in ("finders", "points") if turn else ():
            shutil.rmtree(folder / name)
        times = [seconds_of(partial(stage, folder, recipe)) for stage in (fit, sweep_recall)]
    if ray:
        cluster.shutdown()
    print(f"| {length:,} | {workers} | {size:.0f} | {written:.0f} | {times[0]:.1f} | {times[1]:.1f} |", flush=True)


def _record(path: Path, length: int, sequences: int) -> None:
    generator = torch.Generator().manual_seed(0)
    with TraceWriter(path, teacher="none") as writer:
        for _ in range(sequences):
            for layer in range(LAYERS):
                q = 2 * torch.randn(1, HEADS, length, D, generator=generator)
                k = torch.randn(1, HEADS, length, D, generator=generator)
                writer.add("decoder", layer, q, k, Layout(causal=True))


def _recipe(workers: int, engine: str) -> Recipe:
    task: dict[str, Any] = {"kind": "causal-lm", "data": {"train": "a", "valid": "b"}, "model": {}}
    sweep = {"methods": METHODS, "windows": [0, 11], "globals": [1], "processes": workers}
    return Recipe.model_validate({"name": "scale", "engine": engine, "task": task, "sweep": sweep})


if __name__ == "__main__":
    main()
