"""Times of finders within seconds, without a model: on queries and keys that are made up, and say so.

Scores are of rank 8 with some noise, so that there is something to find, and entmax gives weight to a few percent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import avg_pool1d

from ...attending import gold_graph
from ...core.layout import Layout
from ...finders import Finder, Fitting
from ...finders.about import Place
from ...fitting import choose, fit_finder, learn_maps, map_settings, seeded
from ...learning.sample import Sample
from ...traces.store import Site
from .entries import REFERENCES, Entry, entries_of
from .layers import Layer
from .measure import alone, timed
from .points import Row

__all__ = ["Trial", "trial"]

HEADS, D, RANK, NEAR, NOISE, STRENGTH = 2, 64, 8, 16, 0.3, 0.6
SITE: Site = ("encoder", 0)
LENGTHS = (512, 1024, 2048, 4096)
FITTED_LENGTH, RECALL = 512, 0.95
# What is so much slower than full attention is not tried at longer lengths.
HOPELESS = 0.1
TURNS = 5


@dataclass(frozen=True)
class Trial:
    """Rows as `points/bench` has them; the share of pairs with weight at each length; what there was no time for."""

    rows: list[Row]
    gold: Mapping[int, float]
    left_out: list[str]


def trial(seconds: float, words: str | None = None, lengths: Sequence[int] = LENGTHS) -> Trial:
    """Fit methods to made-up queries and keys, and time them at growing lengths until the seconds are over."""
    end = time.monotonic() + seconds
    finders: dict[Entry, Mapping[Site, Finder]] = {entry: {} for entry in REFERENCES}
    left_out = []
    for entry in entries_of(words):
        # Half of the time is for fitting.
        if time.monotonic() > end - seconds / 2:
            left_out.append(entry.label)
            continue
        finders[entry] = {SITE: _fitted(entry)}
    rows: list[Row] = []
    gold: dict[int, float] = {}
    for number, length in enumerate(lengths):
        started, layer = time.monotonic(), _layer(length, seed=7)
        share = max(0.0, end - started) / (len(lengths) - number)
        times = timed(
            list(finders), [partial(alone, entry, found, [layer]) for entry, found in finders.items()],
            partial(_turns, share),
        )  # fmt: skip
        truth = gold_graph(layer.q, layer.k, layer.alpha, layer.layout)
        gold[length] = 1 - float(truth.sparsity().mean())
        softmax, full = (times[one] for one in REFERENCES)
        for entry, each in times.items():
            graph = layer.find(finders[entry].get(SITE))
            recall, sparsity = (
                (None, None)
                if graph is None
                else (float(graph.recall(truth).nanmean()), float(graph.sparsity().mean()))
            )
            own: Row = {"method": entry.method, "setting": entry.as_json, "exact": entry.exact, "recall": recall}
            own |= {"sparsity": sparsity, "length": length, "block": 0, "forward_to_softmax": None}
            rows.append(own | each.row(full, softmax))
            if entry.finds and rows[-1]["to_full"] < HOPELESS:
                del finders[entry]
        # The next length takes about four times as long.
        if end - time.monotonic() < 4 * (time.monotonic() - started) / TURNS:
            break
    return Trial(rows, gold, left_out)


def _turns(share: float, turn: float) -> int:
    return max(1, min(TURNS, int(share / turn)))


def _layer(length: int, seed: int) -> Layer:
    generator = torch.Generator().manual_seed(seed)
    # The same maps for all, so that what was fitted on some fits others.
    maps = torch.randn(HEADS, RANK, D, generator=torch.Generator().manual_seed(0)) / RANK**0.5
    # What tokens are about goes on for a while, so that neighbours matter to each other, as they do in text.
    meant = torch.randn(HEADS, RANK, length + NEAR - 1, generator=generator)
    meant = avg_pool1d(meant, NEAR, 1).mT * NEAR**0.5
    q, k = (
        STRENGTH * (meant + torch.randn(meant.shape, generator=generator)) @ maps
        + NOISE * torch.randn(HEADS, length, D, generator=generator)
        for _ in range(2)
    )
    return Layer(SITE, q[None], k[None], torch.randn(k.shape, generator=generator)[None], Layout())


def _fitted(entry: Entry) -> Finder:
    """A finder set for the wanted recall, as `Sparsefinder.fit` does it."""
    samples = [Sample(layer.q, layer.k) for layer in (_layer(FITTED_LENGTH, seed) for seed in range(4))]
    how, wanted = Fitting(tokens=2_000, restarts=1, epochs=4), entry.wanted(RECALL)
    maps = {}
    fitted = []
    for one in entry.options(RECALL):
        learned_for = json.dumps(map_settings(one))
        if learned_for not in maps:
            maps[learned_for] = learn_maps(entry.inputs, one, samples[:-1], how)
        found = fit_finder(seeded(one, how.seed), samples[:-1], how, maps[learned_for])
        fitted.append(found.at(Place(*SITE)))
    return fitted[0] if wanted is None else choose(fitted, samples[-1:], wanted).finder
