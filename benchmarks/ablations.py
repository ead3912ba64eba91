"""What each choice is worth: recall at equal sparsity, with one thing changed at a time, on a real teacher.

    python benchmarks/ablations.py MODEL TRAIN.txt TEST.txt > ablations.md

Distance (the paper's), the sketch and the probe (ours), fitted to sequences of one text and measured on another:
dimensions, maps (learned, bent, principal components, random, none), one map for queries and keys or two, the margin,
one dial per head or per layer, how many sequences are learned from, the seed, the teacher's α; clusters of keys, by
k-means and learned. Every head skips exactly the wanted share of pairs, a probe at least that, as clusters come whole;
one dial per layer skips that share of the layer's. Means over layers and heads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.recall import record
from sparsefinder import Finder
from sparsefinder.finders import BentSketch, Distance, Fitting, Probe, Sketch
from sparsefinder.finders.dials import Needs
from sparsefinder.fitting import enough_steps, learn_maps
from sparsefinder.learning.moments import LENGTH, low_rank, principal
from sparsefinder.learning.projection import Projection
from sparsefinder.learning.rows import refine
from sparsefinder.learning.sample import Sample
from sparsefinder.traces.store import Samples, Site, Traces

LEVELS = (0.8, 0.9, 0.95)
# What nothing else is said of: dimensions, sequences to learn from, and steps that a sketch is learned further.
R, LEARNED_FROM, STEPS = 4, 64, 300
COUNTS = (1, 4, 16, 64, 500)
Rows = Iterator[tuple[str, str, Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an entmax model, or of one to be switched to 1.5-entmax")
    parser.add_argument("train", type=Path, help="text to fit on")
    parser.add_argument("test", type=Path, help="text to measure on")
    parser.add_argument("--held-out", type=int, default=8, help="sequences to measure on (8)")
    parser.add_argument("--most", type=int, default=COUNTS[-1], help="sequences to learn from (500)")
    parser.add_argument("--layers", type=int, nargs="*", help="all unless given")
    parser.add_argument("--finders", nargs="*", choices=ROWS, default=list(ROWS), help="all unless given")
    parser.add_argument("--jobs", type=int, default=2, help="layers at the same time")
    given = parser.parse_args()
    found: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        train, test = (
            record(given.model, text, count, Path(folder) / name, given.layers).path
            for name, text, count in (("train", given.train, given.most), ("test", given.test, given.held_out))
        )
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            for layer in pool.map(partial(_layer, train, test, given.most, given.finders), Traces.open(train).sites):
                for (what, row), recalls in layer.items():
                    found[what, row].append(recalls)
    print(f"| what is changed | to | {' | '.join(f'at {level:.0%}' for level in LEVELS)} | worst head at 90% |")
    print("|---" * (len(LEVELS) + 3) + "|")
    for (what, row), layers in found.items():
        recalls = torch.cat(layers, -1)
        means = " | ".join(f"{mean:.3f}" for mean in recalls.nanmean(-1).tolist())
        print(f"| {what} | {row} | {means} | {recalls[1].nan_to_num(1.0).min():.3f} |")


def _layer(train: Path, test: Path, most: int, finders: list[str], site: Site) -> dict[tuple[str, str], Tensor]:
    """The recall of every head at each level, for every row of the table, in one layer."""
    torch.set_num_threads(1)
    traces, held = Traces.open(train), list(Traces.open(test).samples(*site, 1))
    rows = [row for name in finders for row in ROWS[name](traces, site, held, most)]
    print(f"layer {site[1]} done", file=sys.stderr, flush=True)
    return {(what, row): recalls for what, row, recalls in rows}


def _distances(traces: Traces, site: Site, held: list[Sample], most: int) -> Rows:
    def learned(count: int = LEARNED_FROM, **how: object) -> Finder:
        batch, fitting = enough_steps(min(count, most), 16, Fitting(**{"r": R, **how}))  # type: ignore[arg-type]
        return _near(learn_maps("projected", Distance(0.0), _some(traces, site, count, batch), fitting))

    usual = learned()
    yield "distance: nothing", "learned, r = 4, shared, margin 1", at_levels(usual, held)
    yield "distance: dial", "one per layer", at_levels(usual, held, by_layer=True)
    for r in (2, 8, 16):
        yield "distance: dimensions", f"r = {r}", at_levels(learned(r=r), held)
    few = _some(traces, site, 16, 4)
    yield "distance: maps", "principal components", at_levels(_near(principal(few, R)), held)
    yield "distance: maps", "random", at_levels(_near(_random(held[0])), held)
    yield "distance: maps", "none", at_levels(_near(None), held)
    yield "distance: maps", "one for queries, one for keys", at_levels(learned(shared=False), held)
    for margin in (0.25, 4.0):
        yield "distance: margin", f"{margin:g}", at_levels(learned(margin=margin), held)
    for seed in (1, 2):
        yield "distance: seed", str(seed), at_levels(learned(seed=seed), held)
    for count in COUNTS:
        if count <= most and count != LEARNED_FROM:
            yield "distance: sequences", str(count), at_levels(learned(count), held)
    for alpha in (1.25, 2.0):
        yield "distance: α, maps as for 1.5", f"{alpha:g}", at_levels(usual, _with_alpha(held, alpha))


def _sketches(traces: Traces, site: Site, held: list[Sample], most: int) -> Rows:
    few = _some(traces, site, 16, 4)

    def scores(r: int, samples: Iterable[Sample] = few) -> Finder:
        return _scored(low_rank(samples, r))

    usual = scores(2 * R)
    yield "sketch: nothing", "SVD, r = 8, 16 sequences", at_levels(usual, held)
    for r in (2, 4, 16):
        yield "sketch: dimensions", f"r = {r}", at_levels(scores(r), held)
    further = refine(low_rank(few, 2 * R), _some(traces, site, LEARNED_FROM, 4), STEPS)
    yield "sketch: maps", f"learned {STEPS} steps further, r = 8", at_levels(_scored(further), held)
    yield "sketch: dial", "slack instead of share", at_levels(_scored(low_rank(few, 2 * R), slack=1.0), held)
    yield "sketch: maps and dial", "learned further, and slack", at_levels(_scored(further, slack=1.0), held)
    for r in (R, 2 * R):
        bent = BentSketch(r, slack=1.0, steps=STEPS).fit(_some(traces, site, LEARNED_FROM, 4))
        yield "sketch: maps and dial", f"learned further, bent, and slack, r = {r}", at_levels(bent, held)
    yield "sketch: maps", "random, r = 8", at_levels(_scored(_random(held[0], 2 * R)), held)
    for count in COUNTS:
        if count <= most and count != 16:
            yield "sketch: sequences", str(count), at_levels(scores(2 * R, _some(traces, site, count, 4)), held)
    for alpha in (1.25, 2.0):
        yield "sketch: α", f"{alpha:g}", at_levels(usual, _with_alpha(held, alpha))


def _probes(traces: Traces, site: Site, held: list[Sample], most: int) -> Rows:
    samples = _some(traces, site, min(LEARNED_FROM, most), 4)
    for clusters in (32, 64):
        for maps, steps in (("k-means", 0), (f"learned {STEPS} steps further", STEPS)):
            made = Probe(clusters, slack=1.0, steps=steps).fit(samples, Fitting(tokens=10_000, restarts=2))
            so_many = replace(made, slack=None, probes=1)
            yield f"probe: {clusters} clusters", f"{maps}, so many for each query", at_levels(so_many, held)
            yield f"probe: {clusters} clusters", f"{maps}, slack", at_levels(made, held)


ROWS: dict[str, Callable[[Traces, Site, list[Sample], int], Rows]] = {
    "distance": _distances, "sketch": _sketches, "probe": _probes,
}  # fmt: skip


def at_levels(one: Finder, held: list[Sample], by_layer: bool = False) -> Tensor:
    """Recall of every head where it skips each share of the pairs: (levels, heads)."""
    needs = Needs(one, held)
    settings = [_common(needs, level) if by_layer else needs.settings(sparsity=level) for level in LEVELS]
    return torch.stack([needs.recall(each) for each in settings])


def _common(needs: Needs, level: float) -> Tensor:
    """One setting for all heads, with which they skip that share of the pairs on the average."""
    every = needs.settings(sparsity=level)
    low, high = float(every.min()), float(every.max())
    for _ in range(40):
        middle = (low + high) / 2
        sparse = needs.sparsity(torch.full_like(every, middle)).mean() >= level
        low, high = (middle, high) if sparse else (low, middle)
    return torch.full_like(every, low)


def _some(traces: Traces, site: Site, count: int, batch: int) -> Samples:
    return traces.samples(*site, batch, stop=count, seed=0)


def _near(maps: Projection | None) -> Finder:
    return Distance(0.0, projection=maps)


def _scored(scores: Projection, slack: float | None = None) -> Finder:
    return Sketch(scores.queries.shape[-1], slack, 0.1 if slack is None else None, projection=scores)


def _random(sample: Sample, r: int = R) -> Projection:
    """Directions drawn for each head, whose products have the size that codes of a sketch want."""
    heads, d = sample.q.shape[1], sample.q.shape[-1]
    drawn = torch.randn(heads, d, r, generator=torch.Generator().manual_seed(0)) / d**0.5
    longer = LENGTH / (sample.k.float() @ drawn).square().sum(-1).mean((0, 2)).sqrt()[:, None, None]
    maps = drawn * longer
    return Projection(maps, maps)


def _with_alpha(held: list[Sample], alpha: float) -> list[Sample]:
    return [replace(sample, alpha=alpha) for sample in held]


if __name__ == "__main__":
    main()
