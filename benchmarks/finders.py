"""What predicting costs: time of each finder, in percent of dense attention over the same queries and keys.

    python benchmarks/finders.py --backend auto
    python benchmarks/finders.py --fit MODEL TEXT.txt
    python benchmarks/finders.py --blocks MODEL TRAIN.txt TEST.txt

Also how the time of prediction with attention over the predicted graph grows with the length: the exponent of n. With
--fit, instead, time and memory of learning the projections of a teacher's layers from its traces. With --blocks,
instead, the recall of methods that attend to so many blocks.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.recall import record
from sparsefinder import Finder, attention
from sparsefinder.finders import (
    BigBird,
    BlockCentroids,
    BlockTopK,
    Distance,
    Fitting,
    KMeans,
    Probe,
    Quantization,
    Reformer,
    Routing,
    Sketch,
)
from sparsefinder.finders.fixed import united
from sparsefinder.lab.bench.clock import interleaved, ratio, seconds_of
from sparsefinder.learning.learn import learn
from sparsefinder.learning.moments import low_rank
from sparsefinder.learning.projection import Projection
from sparsefinder.learning.sample import Sample
from sparsefinder.traces.store import Samples, Traces

HEADS, D, R = 8, 64, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 4096])
    parser.add_argument("--growth", type=int, nargs="*", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--backend", default="auto", help="of the attention that predicting is set against")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--fit", nargs=2, metavar=("MODEL", "TEXT"), help="an entmax model, and what to record it on")
    parser.add_argument("--blocks", nargs=3, metavar=("MODEL", "TRAIN", "TEST"), help="and what to fit and measure on")
    parser.add_argument("--sequences", type=int, default=500, help="of 512 tokens, to fit on")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.fit:
        model, text = arguments.fit
        _fit(model, text, arguments.sequences, arguments.threads)
        return
    if arguments.blocks:
        _blocks(*arguments.blocks)
        return
    for n in arguments.lengths:
        q, k, v = _tokens(n)
        dense: Callable[[], object] = partial(attention, q, k, v, backend=arguments.backend)
        finders = _finders(n)
        times = interleaved(dense, *(partial(finder, q, k) for finder in finders.values()), repeats=arguments.repeats)
        print(f"n = {n}: dense attention {1000 * median(times[0]):.1f} ms, backend {arguments.backend}")
        for name, taken in zip(finders, times[1:], strict=True):
            share = ratio(taken, times[0]).middle
            print(f"  {name:28} {1000 * median(taken):8.2f} ms {100 * share:7.1f} %")
    if len(arguments.growth) > 1:
        _growth(arguments.growth, arguments.backend, arguments.repeats)


def _growth(lengths: list[int], backend: str, repeats: int) -> None:
    """Prediction by k-means with √n clusters, and attention over what it predicts."""
    work: list[Callable[[], object]] = []
    for n in lengths:
        q, k, v = _tokens(n)
        finder = _k_means(math.isqrt(n))
        work.append(partial(_predict_and_attend, finder, q, k, v, backend))
    taken = [median(times) for times in interleaved(*work, repeats=max(1, repeats // 2))]
    for n, seconds in zip(lengths, taken, strict=True):
        print(f"n = {n}: prediction and attention with {math.isqrt(n)} clusters {1000 * seconds:.0f} ms")
    power = math.log(taken[-1] / taken[0]) / math.log(lengths[-1] / lengths[0])
    print(f"from {lengths[0]} to {lengths[-1]} it grows as n^{power:.2f}")


def _fit(model: str, text: str, count: int, threads: int) -> None:
    """Time and peak memory of learning a projection for every layer, in a process that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        traces = record(model, Path(text), count, Path(folder) / "traces", None)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            seconds, gigabytes = pool.submit(_learn_all, traces.path, threads).result()
    print(f"{len(traces.sites)} layers on {count} sequences: {seconds:.0f} s, {gigabytes:.2f} GB at the most")


def _learn_all(path: Path, threads: int) -> tuple[float, float]:
    torch.set_num_threads(threads)
    traces = Traces.open(path)
    seconds = seconds_of(lambda: [learn(traces.samples(*site, 16, seed=0), R) for site in traces.sites])
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _blocks(model: str, train: str, test: str) -> None:
    """Recall by number of attended blocks, besides a window of 3 and the first token: means over layers and heads."""
    recalls: dict[tuple[int, str], dict[int, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        learned = record(model, Path(train), 64, Path(folder) / "train", None)
        measured = record(model, Path(test), 16, Path(folder) / "test", None)
        for site in learned.sites:
            samples, held = learned.samples(*site, 4, seed=0), list(measured.samples(*site, 4))
            gold = [sample.gold for sample in held]
            for size in (4, 16):
                for name, finder in _of_blocks(size, samples).items():
                    for count in (2, 4, 8):
                        one = (
                            replace(finder, random_blocks=count)
                            if isinstance(finder, BigBird)
                            else finder.turned(count)
                        )
                        graphs = [united(one, 3, 1)(sample.q, sample.k, sample.layout) for sample in held]
                        recalls[size, name][count] += [a.recall(b).mean() for a, b in zip(graphs, gold, strict=True)]
    for (size, name), by_count in recalls.items():
        means = [f"{torch.stack(found).mean():.3f}" for found in by_count.values()]
        print(f"| {size} | {name} | {' | '.join(means)} |")


def _of_blocks(size: int, samples: Samples) -> dict[str, Finder]:
    maps = learn(samples, R, block=size)
    return {
        "v1, product, learned": BlockTopK(size, 0, projection=maps),
        "v1, distance, learned": BlockTopK(size, 0, score="distance", projection=maps),
        "v1, product, raw": BlockTopK(size, 0),
        "v1, distance, raw": BlockTopK(size, 0, score="distance"),
        "v2, 12 clusters": BlockCentroids(size, 0, 12, projection=maps).fit(samples, Fitting(restarts=1)),
        "BigBird": BigBird(0, size, window=0, globals=0),
    }


def _predict_and_attend(finder: Finder, q: Tensor, k: Tensor, v: Tensor, backend: str) -> Tensor:
    return attention(q, k, v, finder(q, k), backend=backend)


def _tokens(n: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, n, D, generator=generator).unbind()
    return 2 * q, k, v


def _projection() -> Projection:
    maps = torch.randn(HEADS, D, R, generator=torch.Generator().manual_seed(1)) / math.sqrt(D)
    return Projection(maps, maps)


def _k_means(clusters: int) -> KMeans:
    """Centroids that share the tokens out about evenly: tokens like those to come."""
    q, k, _ = _tokens(max(64, clusters))
    chosen = torch.cat([q, k], 2)[0, :, :clusters]
    return KMeans(clusters, projection=_projection(), centroids=chosen @ _projection().queries)


def _finders(n: int) -> dict[str, Finder]:
    q, k, _ = _tokens(512)
    samples = [Sample(q, k)]
    return {
        "k-means, 64 clusters": _k_means(64),
        "quantization, 16 bins": Quantization(16, projection=_projection()),
        "quantization by edges": Quantization(16, "quantiles", projection=_projection()).fit(samples),
        "probe, 64 clusters, 4 probes": Probe(64, 4, centroids=k[0, :, :64].clone()),
        "distance": Distance(0.5, projection=_projection()),
        "sketch, r = 8, 5 %": Sketch(8, share=0.05, projection=low_rank(samples, 8)),
        "Reformer, 16 buckets": Reformer(16),
        "Routing, 16 clusters": Routing(16).fit(samples),
        "BigBird, blocks of 16": BigBird(2, 16, 11),
    }


if __name__ == "__main__":
    main()
