"""Recall at equal sparsity of every finder, on the queries and keys of a real teacher.

    python benchmarks/recall.py MODEL TRAIN.txt TEST.txt > table.md

Fits on sequences of one text, chooses settings on others of it, and measures on another text. Every method is tried
with several settings, each with several windows, and always with the first token as a global one. A head takes the
setting with the highest recall + λ · sparsity on the sequences to choose on; one λ for all heads says how sparse a
method is on the whole, and is set so that the mean sparsity on the other text is the wanted one. Beside it the same
with one setting for all heads of a layer. Recall and sparsity are means over sequences, layers and heads.

Where the ranks of sketches are chosen by head as well, a dimension costs μ, which is set so that the mean rank is the
wanted one: as many are compared as with that rank in every head.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import Finder, Window, load_model
from sparsefinder.finders import (
    BentSketch,
    BigBird,
    BlockTopK,
    Distance,
    Fitting,
    KMeans,
    Longformer,
    Probe,
    Quantization,
    RandomBlocks,
    Reformer,
    Routing,
    Sketch,
    Strided,
)
from sparsefinder.finders.dials import Needs
from sparsefinder.hf.recording import record_traces
from sparsefinder.lab.bench.clock import seconds_of
from sparsefinder.lab.sweep.masks import masks_of
from sparsefinder.lab.sweep.tally import GoldPairs, tally
from sparsefinder.learning.bends import bend
from sparsefinder.learning.learn import learn
from sparsefinder.learning.moments import low_rank, principal
from sparsefinder.learning.projection import Projection
from sparsefinder.learning.rows import refine
from sparsefinder.learning.sample import Sample
from sparsefinder.traces.store import Samples, Traces

N = 512
LEVELS = (0.8, 0.9, 0.95)
WINDOWS = (0, 5, 17, 51)
CLUSTERS = (4, 8, 16, 32, 64, 128)
TOPS = (1, 2, 4, 8, 12)
LAMBDAS = torch.logspace(-2, 2, 321)
# Ranks to choose among by head, what a dimension of them may cost, and the mean ranks that are wanted.
RANKS, PRICES, MEAN_RANKS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24), torch.logspace(-4.5, -0.5, 401), (4, 8)
BY_HEAD, BENT_BY_HEAD = "sketch, learned, ranks by head", "bent sketch, ranks by head"
# A level counts as reached if it is missed by no more than this: grids do not hit it exactly. A second table is strict.
SHORTS = (0.0025, 0.0)
Grid = Iterator[tuple[str, Callable[[], Sequence[Finder]]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an entmax model, or of one to be switched to 1.5-entmax")
    parser.add_argument("train", type=Path, help="text to fit on")
    parser.add_argument("test", type=Path, help="text to measure on")
    parser.add_argument("--sequences", type=int, default=192, help=f"of {N} tokens, to fit on")
    parser.add_argument("--choose", type=int, default=4, help="more of the same text, to choose settings on")
    parser.add_argument("--held-out", type=int, default=32, help="to measure on")
    parser.add_argument("--layers", type=int, nargs="*", help="all unless given")
    parser.add_argument("--only", default="", metavar="PATTERN", help="methods with such names: 'Routing|means'")
    parser.add_argument("--steps", type=int, default=300, help="to learn a sketch in")
    parser.add_argument("--jobs", type=int, default=2, help="layers at the same time")
    arguments = parser.parse_args()
    fitted, every = arguments.sequences, arguments.sequences + arguments.choose
    results: dict[str, list[tuple[Tensor, ...]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        train, test = (
            record(arguments.model, text, count, Path(folder) / name, arguments.layers)
            for name, text, count in (("train", arguments.train, every), ("test", arguments.test, arguments.held_out))
        )
        with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
            how = partial(_layer, train.path, test.path, fitted, arguments.steps, arguments.only)
            for layer in pool.map(how, train.sites):
                for method, measured in layer.items():
                    results[method].append(measured)
    for short in SHORTS:
        print(f"Where a level is missed by {short:.2%} at the most:\n")
        _print(results, short)
        print()


def _layer(
    train: Path, test: Path, fitted: int, steps: int, only: str, site: tuple[str, int]
) -> dict[str, tuple[Tensor, ...]]:
    """Recall and sparsity of every method in one layer, and how long that took, for whoever waits."""
    torch.set_num_threads(1)
    results: dict[str, tuple[Tensor, ...]] = {}
    seconds = seconds_of(lambda: results.update(_measured(train, test, fitted, steps, only, site)))
    print(f"{site[0]} layer {site[1]}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return results


def _measured(
    train: Path, test: Path, fitted: int, steps: int, only: str, site: tuple[str, int]
) -> dict[str, tuple[Tensor, ...]]:
    traces = Traces.open(train)
    choose = [_gold(sample) for sample in traces.samples(*site, 1, start=fitted)]
    held = [_gold(sample) for sample in Traces.open(test).samples(*site, 1)]
    samples = traces.samples(*site, 4, stop=fitted, seed=0)
    wanted = ((method, finders) for method, finders in _finders(samples, steps) if re.search(only, method))
    return {method: _chosen(finders(), choose, held) for method, finders in wanted}


def record(model_path: str, text: Path, count: int, folder: Path, layers: list[int] | None) -> Traces:
    """The traces of a model on the first sequences of a text."""
    model = load_model(model_path, alpha=1.5, finders=False, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    # About eight characters to a token at the most, so that no more than needed is tokenised.
    ids = tokenizer(text.read_text()[: count * N * 8], add_special_tokens=False, verbose=False)["input_ids"]
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    whole = [[first, *ids[start : start + N - 2], last] for start in range(0, count * (N - 2), N - 2)]
    inputs = ({"input_ids": part} for part in torch.tensor(whole).split(4))
    return record_traces(model.base_model, inputs, folder, layers=layers)


def _finders(samples: Samples, steps: int) -> Grid:
    """Every method with every setting that is tried, made when it is asked for."""
    yield "window", lambda: [Window(size) for size in (1, 11, 25, 35, 75, 101, 131, 171)]
    yield "random", lambda: [RandomBlocks(count) for count in (5, 13, 25, 51, 103)]
    yield "BigBird", lambda: [BigBird(count, 1, window) for window in (1, 11, 25, 75) for count in (8, 16, 40)]
    yield "Longformer", lambda: [Longformer(window, count) for window in (1, 11, 25, 75) for count in (4, 8, 16)]
    yield "strided", lambda: [Strided(stride) for stride in (6, 8, 10, 12, 16, 24, 32)]
    few = list(islice(samples, 16))
    yield "Reformer, shared", lambda: [Reformer(each, rounds) for each in (4, 8, 16, 32, 64) for rounds in (1, 2)]
    yield "Reformer", partial(_reformers, None)
    yield "Routing", partial(_routings, few, None)
    yield "k-means, raw", partial(_k_means, few, None)
    yield "distance, raw", partial(_distances, few, None)
    for r in (4, 8):
        learned, pca = cache(partial(learn, samples, r)), cache(partial(principal, few, r))
        for name, metric in (("learned", learned), ("PCA", pca)):
            yield f"distance, {name} r = {r}", partial(_with, metric, partial(_distances, few))
            yield f"k-means, {name} r = {r}", partial(_with, metric, partial(_k_means, few))
            if r == 4:
                yield f"quantization, {name} r = {r}", partial(_with, metric, _quantizations)
        yield f"Routing, learned r = {r}", partial(_with, learned, partial(_routings, few))
        if r == 8:
            yield "Reformer, learned r = 8", partial(_with, learned, _reformers)
    for block in (4, 16):
        yield f"blocks of {block}", partial(_with, partial(learn, few, block=block), partial(_blocks, block))
    # Learned once, where several methods begin with it.
    straight = cache(lambda r: refine(low_rank(few, r), samples, steps))
    bent = cache(lambda r: _bent(samples, steps, straight(r)))

    def bents(*ranks: int) -> list[Finder]:
        return [one for r in ranks for one in _over_shares(bent(r), few)]

    for r in (4, 8, 16):
        yield f"sketch r = {r}", partial(_with, partial(low_rank, few, r), _sketches)
        yield f"sketch r = {r}, learned", partial(_with, partial(straight, r), partial(_refined, few))
    for r in (4, 8):
        yield f"bent sketch r = {r}", partial(bents, r)
    yield BY_HEAD, lambda: [one for r in RANKS for one in _refined(few, straight(r))]
    yield BENT_BY_HEAD, partial(bents, *RANKS)
    for clusters, counts in ((64, (1, 2, 3, 4, 6, 8, 10, 14)), (128, (2, 4, 6, 8, 12, 16, 20, 28))):
        yield f"probe B = {clusters}", partial(_probes, few, clusters, counts)


def _with(metric: Callable[[], Projection], make: Callable[[Projection], list[Finder]]) -> list[Finder]:
    return make(metric())


def _quantizations(metric: Projection) -> list[Finder]:
    return [Quantization(beta, projection=metric) for beta in (12, 24, 48, 96)]


def _blocks(block: int, metric: Projection) -> list[Finder]:
    counts = [max(1, round(share * N / block)) for share in (0.03, 0.06, 0.1, 0.15, 0.2)]
    return [BlockTopK(block, count, projection=metric) for count in counts]


def _sketches(scores: Projection) -> list[Finder]:
    r = scores.queries.shape[-1]
    return [Sketch(r, share=share, projection=scores) for share in (0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)]


def _refined(few: list[Sample], learned: Projection) -> list[Finder]:
    return _over_shares(Sketch(learned.queries.shape[-1], slack=1.0, projection=learned), few)


def _bent(samples: Samples, steps: int, learned: Projection) -> Finder:
    one = BentSketch(learned.queries.shape[-1], slack=1.0)
    maps, query_layer, key_layer = bend(learned, samples, steps, one.units)
    return replace(one, projection=maps, query_layer=query_layer, key_layer=key_layer)


def _probes(samples: list[Sample], clusters: int, counts: Sequence[int]) -> list[Finder]:
    probe = Probe(clusters).fit(samples, Fitting(tokens=10_000, restarts=1))
    return [probe.turned(count) for count in counts]


def _distances(samples: list[Sample], metric: Projection | None) -> list[Finder]:
    return _over_shares(Distance(0.0, projection=metric), samples)


def _over_shares(one: Finder, samples: list[Sample]) -> list[Finder]:
    """A method whose dial is set so that each head keeps a share of the pairs, for many of them."""
    shares = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.09, 0.12, 0.16, 0.2)
    needs = Needs(one, samples[:4])
    return [one.turned(needs.settings(sparsity=1 - share)) for share in shares]


def _k_means(samples: list[Sample], metric: Projection | None) -> list[Finder]:
    how = Fitting(tokens=5_000, restarts=1)
    fitted = [KMeans(clusters, projection=metric).fit(samples, how) for clusters in CLUSTERS]
    return [one.turned(top) for one in fitted for top in TOPS if top <= one.clusters // 2]


def _routings(samples: list[Sample], metric: Projection | None) -> list[Finder]:
    fitted = [Routing(clusters, projection=metric).fit(samples) for clusters in CLUSTERS]
    sizes = (0.7, 1.0, 1.4, 2.0)
    return [replace(one, size=round(size * N / one.clusters)) for one in fitted for size in sizes]


def _reformers(metric: Projection | None) -> list[Finder]:
    settings = [(buckets, rounds) for buckets in (4, 8, 16, 32, 64) for rounds in (1, 2)]
    return [Reformer(buckets, rounds, shared=False, projection=metric) for buckets, rounds in settings]


def _chosen(finders: Sequence[Finder], choose: list[GoldPairs], held: list[GoldPairs]) -> tuple[Tensor, ...]:
    """Recall and sparsity on held-out sequences for each λ: (2, λ, heads), settings by head and by layer.

    Of sketches of several ranks (μ, λ, heads), by head, and the ranks.
    """
    recall, sparsity = _means(finders, choose)
    heads = torch.arange(recall.shape[1])
    ranks = torch.tensor([float(getattr(one, "r", None) or 0) for one in finders]).repeat_interleave(len(WINDOWS))
    by_rank = len(ranks.unique()) > 1
    if by_rank:
        paid = [recall - price * ranks[:, None] for price in PRICES]
        picked = torch.stack([torch.stack([(each + one * sparsity).argmax(0) for one in LAMBDAS]) for each in paid])
    else:
        by_head = torch.stack([(recall + each * sparsity).argmax(0) for each in LAMBDAS])
        by_layer = torch.stack([(recall + each * sparsity).mean(1).argmax() for each in LAMBDAS])
        picked = torch.stack([by_head, by_layer[:, None].expand_as(by_head)])
    measured = [torch.zeros_like(recall), torch.zeros_like(sparsity)]
    used = (picked // len(WINDOWS)).unique().tolist()
    rows = torch.cat([torch.arange(number * len(WINDOWS), (number + 1) * len(WINDOWS)) for number in used])
    measured[0][rows], measured[1][rows] = _means([finders[number] for number in used], held)
    found = measured[0][picked, heads], measured[1][picked, heads]
    return (*found, ranks[picked]) if by_rank else found


def _gold(sample: Sample) -> GoldPairs:
    return GoldPairs(sample, WINDOWS, (1,))


def _means(finders: Sequence[Finder], parts: list[GoldPairs]) -> tuple[Tensor, Tensor]:
    """Recall and sparsity, (finders and windows, heads) each: all windows from one pass, as in sweeps."""
    recalls, sparsities = [], []
    for gold in parts:
        counted = [tally(masks, gold) for masks in masks_of(finders, gold.sample)]
        hits, predicted = (
            torch.cat([torch.from_numpy(getattr(each, name)).flatten(0, 2) for each in counted])
            for name in ("hits", "predicted")
        )
        recalls.append(hits / torch.from_numpy(counted[0].gold))
        sparsities.append(1 - predicted / torch.from_numpy(counted[0].visible))
    return torch.cat(recalls, 1).mean(1), torch.cat(sparsities, 1).mean(1)


def _print(results: dict[str, list[tuple[Tensor, ...]]], short: float) -> None:
    levels = [f"{level:.0%}" for level in LEVELS]
    print(f"| finder | {' | '.join(levels)} | {' | '.join(f'{level}, by layer' for level in levels)} |")
    print("|---" * (2 * len(LEVELS) + 1) + "|")
    rows = []
    for method, layers in results.items():
        recall, sparsity, *ranks = (torch.cat(each, -1).mean(-1) for each in zip(*layers, strict=True))
        for rank in MEAN_RANKS if ranks else ():
            fits = ranks[0] <= rank
            by_head = _at(fits, recall, sparsity, short)
            rows.append((f"{method}: {rank} on the mean", [*by_head, *(0.0 for _ in LEVELS)]))
        if not ranks:
            every = torch.ones_like(recall[0], dtype=torch.bool)
            by_head, by_layer = (_at(every, recall[place], sparsity[place], short) for place in (0, 1))
            rows.append((method, by_head + by_layer))
    for method, cells in sorted(rows, key=lambda row: row[1][1]):
        print(f"| {method} | {' | '.join(f'{value:.3f}' if value else '–' for value in cells)} |")


def _at(fits: Tensor, recall: Tensor, sparsity: Tensor, short: float) -> list[float]:
    """The best recall at each level of sparsity, among some settings."""
    return [torch.where(fits & (sparsity >= level - short), recall, 0.0).amax().item() for level in LEVELS]


if __name__ == "__main__":
    main()
