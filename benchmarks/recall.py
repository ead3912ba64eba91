"""Recall at equal sparsity of every finder, on the queries and keys of a real teacher.

    python benchmarks/recall.py MODEL TRAIN.txt TEST.txt > table.md

Fits on sequences of one text and measures on another. Every method is tried with several settings, alone and with
windows, and always with the first token as a global one; at each sparsity the best setting that reaches it counts.
Recall and sparsity are means over sequences, layers and heads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer

from sparsefinder import Finder, GlobalTokens, Window, load_model
from sparsefinder.finders import (
    BigBird,
    BlockTopK,
    Distance,
    KMeans,
    Longformer,
    Probe,
    Quantization,
    RandomBlocks,
    Reformer,
    Routing,
    Sketch,
    Strided,
    TopK,
)
from sparsefinder.projection import Projection, learn, low_rank, principal
from sparsefinder.sample import Sample
from sparsefinder.traces import Samples, Traces

LEVELS = (0.8, 0.9, 0.95)
WINDOWS = (0, 11, 25)
CLUSTERS = (6, 8, 12, 16, 24)
# A setting counts for a level that it misses by no more than this: grids do not hit them exactly.
SHORT = 0.005
Point = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an entmax model, or of one to be switched to 1.5-entmax")
    parser.add_argument("train", type=Path, help="text to fit on")
    parser.add_argument("test", type=Path, help="text to measure on")
    parser.add_argument("--sequences", type=int, default=64, help="of 512 tokens, to fit on")
    parser.add_argument("--held-out", type=int, default=8, help="to measure on")
    parser.add_argument("--layers", type=int, nargs="*", help="all unless given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train, test = (
            _record(arguments.model, text, count, Path(folder) / name, arguments.layers)
            for name, text, count in (
                ("train", arguments.train, arguments.sequences),
                ("test", arguments.test, arguments.held_out),
            )
        )
        recalls, sparsities = defaultdict(list), defaultdict(list)
        for site in train.sites:
            start = time.perf_counter()
            samples = train.samples(*site, 2, seed=0)
            held = [(sample, sample.gold.dense()) for sample in test.samples(*site, 2)]
            for method, setting, finder in _finders(samples):
                for sample, gold in held:
                    alone = _mask(finder, sample)
                    for window in WINDOWS if _takes_window(finder) else (0,):
                        mask = alone | Window(window)(sample.q, sample.k, sample.layout).dense()
                        point = (method, f"{setting} window {window}" if window else setting)
                        recalls[point].append((mask & gold).sum((-1, -2)) / gold.sum((-1, -2)))
                        sparsities[point].append(1 - mask.float().mean((-1, -2)))
            print(f"{site[0]} layer {site[1]}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    _print(
        {point: torch.cat(values).mean().item() for point, values in recalls.items()},
        {point: torch.cat(values).mean().item() for point, values in sparsities.items()},
    )


def _record(model_path: str, text: Path, count: int, folder: Path, layers: list[int] | None) -> Traces:
    model = load_model(model_path, alpha=1.5, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    n = 512
    # About eight characters to a token at the most, so that no more than needed is tokenised.
    ids = tokenizer(text.read_text()[: count * n * 8], add_special_tokens=False, verbose=False)["input_ids"]
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    whole = [[first, *ids[start : start + n - 2], last] for start in range(0, count * (n - 2), n - 2)]
    inputs = ({"input_ids": part} for part in torch.tensor(whole).split(4))
    return Traces.record(model.base_model, inputs, folder, layers=layers)


def _finders(samples: Samples) -> Iterator[tuple[str, str, Finder]]:
    """Every method with every setting that is tried."""
    for size in (11, 25, 51, 75, 101, 131):
        yield "window", f"{size}", Window(size)
    for count in (25, 51, 103):
        yield "random", f"{count}", RandomBlocks(count)
    for window in (11, 25, 51, 75):
        for count in (4, 8, 16):
            yield "BigBird", f"{count} window {window}", BigBird(count, 1, window)
            yield "Longformer", f"{count} window {window}", Longformer(window, count)
    for stride in (8, 10, 12):
        yield "strided", f"{stride}", Strided(stride)
    for buckets in (8, 16, 32):
        yield "Reformer, shared", f"{buckets}", Reformer(buckets)
        yield "Reformer, apart", f"{buckets}", Reformer(buckets, shared=False)
    for clusters in CLUSTERS:
        yield "Routing", f"{clusters}", Routing.fit(samples, clusters)
    # Sequence by sequence, four times over: a step for each.
    single = Samples(samples.path, samples.site, 1, samples.start, samples.stop, samples.seed)
    metrics = {"learned": learn(single, epochs=4), "PCA": principal(samples)}
    for name, metric in metrics.items():
        yield from _metric_finders(samples, name, metric)
    for block in (4, 16):
        metric = learn(samples, block=block)
        for share in (0.05, 0.1, 0.15, 0.2):
            count = round(share * 512 / block)
            yield f"blocks of {block}", f"{count}", BlockTopK(block, count, metric)
    for r in (4, 8, 16):
        scores = low_rank(samples, r)
        for share in (0.05, 0.1, 0.2):
            yield f"sketch r = {r}", f"{share}", Sketch(scores, share)
    probe = Probe.fit(samples, 64, most=10_000, restarts=1)
    for probes in (2, 4, 5, 6, 8, 10, 12, 14, 16):
        yield "probe B = 64", f"{probes}", Probe(probe.centroids, probes, probe.projection)
    for share in (0.05, 0.1, 0.2):
        yield "best possible", f"{share}", TopK(share)


def _metric_finders(samples: Samples, name: str, metric: Projection) -> Iterator[tuple[str, str, Finder]]:
    # The learned space has the margin for its unit, PCA that of the queries and keys.
    wide = 3 if name == "PCA" else 1
    for t in (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5):
        yield f"distance, {name}", f"{wide * t:.1f}", Distance(wide * t, metric)
    for share in (0.02, 0.04, 0.05, 0.08, 0.1, 0.15, 0.18, 0.2):
        fitted_t = Distance.fit(samples, share, metric)
        yield f"distance, {name}, t by head", f"{share}", fitted_t
    for clusters in CLUSTERS:
        fitted = KMeans.fit(samples, clusters, 1, metric, most=6_000, restarts=1)
        for top in (1, 2):
            yield f"k-means, {name}", f"{clusters} top {top}", KMeans(fitted.centroids, top, metric)
    for beta in (24, 40, 80):
        yield f"quantization, {name}", f"{beta}", Quantization(beta, metric)
    if name == "learned":
        for clusters in CLUSTERS:
            yield "Routing, learned", f"{clusters}", Routing.fit(samples, clusters, None, metric)
        for buckets in (4, 8, 16, 32):
            yield "Reformer, learned", f"{buckets}", Reformer(buckets, shared=False, projection=metric)


def _takes_window(finder: Finder) -> bool:
    return not isinstance(finder, Window | BigBird | Longformer | Strided | TopK)


def _mask(finder: Finder, sample: Sample) -> Tensor:
    whole = finder if isinstance(finder, TopK) else finder | GlobalTokens(1)
    return whole(sample.q, sample.k, sample.layout).dense()


def _print(recalls: dict[Point, float], sparsities: dict[Point, float]) -> None:
    print(f"| finder | {' | '.join(f'recall at {level:.0%} sparsity' for level in LEVELS)} |")
    print("|---" * (len(LEVELS) + 1) + "|")
    rows = []
    for method in dict.fromkeys(method for method, _ in recalls):
        cells = []
        for level in LEVELS:
            fit = [point for point in recalls if point[0] == method and sparsities[point] >= level - SHORT]
            best = max(fit, key=lambda point: recalls[point], default=None)
            cells.append((0.0, "") if best is None else (recalls[best], best[1]))
        rows.append((cells[1][0], method, cells))
    for _, method, cells in sorted(rows):
        print(
            f"| {method} | {' | '.join(f'{value:.3f} ({setting})' if setting else '–' for value, setting in cells)} |"
        )


if __name__ == "__main__":
    main()
