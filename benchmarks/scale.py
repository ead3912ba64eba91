"""What traces, fits and sweeps take by tokens, heads, settings and sequences, with one worker and with two.

python benchmarks/scale.py            # processes of this machine
python benchmarks/scale.py --ray      # tasks of a Ray cluster of this machine
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import astuple, dataclass
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

LAYERS, D = 4, 64


@dataclass(frozen=True)
class Case:
    """How much there is to do: what one row of the table says."""

    tokens: int = 512
    heads: int = 8
    settings: int = 4
    sequences: int = 16

    def methods(self) -> list[dict[str, Any]]:
        """Half of the settings are learned projections, the others sketches for a recall."""
        half = self.settings // 2
        clusters, ranks = [8 + 4 * step for step in range(half)], [4 + 4 * step for step in range(half)]
        return [{"method": "kmeans", "clusters": clusters}, {"method": "sketch", "r": ranks, "recall": 0.95}]


# The first is what the others are twice of, in one thing each.
CASES = (Case(), Case(tokens=1024), Case(heads=16), Case(settings=8), Case(sequences=32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true", help="the Ray engine instead of the local one")
    ray = parser.parse_args().ray
    print(f"{LAYERS} layers, heads of {D}; as many sequences to fit on as to measure on; half k-means, half sketches")
    print("| tokens | heads | settings | sequences | workers | traces, MB | fit, s | sweep, s |")
    print("|---|---|---|---|---|---|---|---|")
    _measure(Case(tokens=64), 1, ray)  # Imports and first calls are nobody's.
    for case in CASES:
        for workers in (1, 2):
            size, fitted, swept = _measure(case, workers, ray)
            amounts = " | ".join(f"{amount:,}" for amount in astuple(case))
            print(f"| {amounts} | {workers} | {size:.0f} | {fitted:.1f} | {swept:.1f} |", flush=True)


def _measure(case: Case, workers: int, ray: bool) -> tuple[float, float, float]:
    """Megabytes of traces, seconds of fitting, seconds of sweeping."""
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        for part in ("train", "valid"):
            _record(folder / "traces" / part, case)
        size = sum(file.stat().st_size for file in (folder / "traces").rglob("*.safetensors")) / 1e6
        recipe = _recipe(case, workers, "ray" if ray else "local")
        if ray:
            import ray as cluster

            cluster.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        fitted, swept = (seconds_of(partial(stage, folder, recipe)) for stage in (fit, sweep_recall))
        if ray:
            cluster.shutdown()
    return size, fitted, swept


def _record(path: Path, case: Case) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (1, case.heads, case.tokens, D)
    with TraceWriter(path, teacher="none") as writer:
        for _ in range(case.sequences):
            for layer in range(LAYERS):
                q, k = 2 * torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
                writer.add("decoder", layer, q, k, Layout(causal=True))


def _recipe(case: Case, workers: int, engine: str) -> Recipe:
    task: dict[str, Any] = {"kind": "causal-lm", "data": {"train": "a", "valid": "b"}, "model": {}}
    sweep = {"methods": case.methods(), "windows": [0], "globals": [0], "processes": workers}
    return Recipe.model_validate({"name": "scale", "engine": engine, "task": task, "sweep": sweep})


if __name__ == "__main__":
    main()
