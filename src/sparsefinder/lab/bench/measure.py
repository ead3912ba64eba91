"""One unit of a benchmark: every entry in turn, attention alone and the whole forward, and how good each is.

Only times of one unit can be compared: what takes turns meets the same moments of the machine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from ...attending.api import checked, choose
from ...core.ratios import mean, recall, sparsity
from ...finders import Finder
from ...hf.models import predicting
from ...traces.store import Site, Traces
from ..sweep.masks import GraphMasks
from ..sweep.settings import FULL, SOFTMAX
from ..sweep.tally import GoldPairs, tally
from .clock import Spread, in_turns, laps, ratio, seconds_of
from .entries import Entry
from .layers import Layer, layers_of
from .points import Row

__all__ = ["Timed", "Work", "alone", "backend_of", "quality", "time_unit", "timed"]

Array = NDArray[Any]
Finders = Mapping[Site, Finder]
# Seconds of one turn: of finding and attending, or of a forward.
Work = Callable[[], tuple[float, float]]


@dataclass(frozen=True)
class Timed:
    """What the turns of an entry took, in seconds: finding, attending, and a forward (none where it was not timed)."""

    find: Sequence[float]
    attend: Sequence[float]
    forward: Sequence[float] = ()

    @property
    def alone(self) -> list[float]:
        """Finding and attending together."""
        return [find + attend for find, attend in zip(self.find, self.attend, strict=True)]

    def row(self, full: Timed, softmax: Timed, batch: int = 1) -> Row:
        """Medians for a sequence, and how many times as fast as full and as softmax attention, turn by turn.

        batch: the sequences of a turn, of which longer ones have fewer.
        """
        spreads = {
            "find": _each(self.find, batch), "attend": _each(self.attend, batch), "alone": _each(self.alone, batch),
            "to_full": ratio(full.alone, self.alone), "to_softmax": ratio(softmax.alone, self.alone),
        }  # fmt: skip
        if self.forward:
            spreads["forward"] = _each(self.forward, batch)
            spreads["forward_to_full"] = ratio(full.forward, self.forward)
            spreads["forward_to_softmax"] = ratio(softmax.forward, self.forward)
        found: Row = {}
        for name, each in spreads.items():
            found |= {name: each.middle, f"{name}_low": each.low, f"{name}_high": each.high}
        return found


def _each(seconds: Sequence[float], batch: int) -> Spread:
    return Spread.of([turn / batch for turn in seconds])


def time_unit(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    sites: Sequence[Site],
    finders: Mapping[Entry, Finders],
    repeats: Callable[[float], int],
) -> tuple[dict[Entry, Timed], list[Layer]]:
    """The times of every entry on one batch, and the layers that they were alone with.

    repeats: how many turns to take, going by the seconds of one, which is the warm-up.
    """
    layers = layers_of(model, inputs, sites)
    # The same weights under softmax: for its time, as it was not trained for that.
    softmax = copy.deepcopy(model)
    softmax.set_attn_implementation("sdpa")
    work: list[Work] = []
    for entry, found in finders.items():
        work.append(partial(alone, entry, found, layers))
        work.append(partial(_forward, softmax if entry.method == SOFTMAX.method else model, inputs, entry, found))
    with torch.no_grad():
        return timed(list(finders), work, repeats), layers


def timed(entries: Sequence[Entry], work: Sequence[Work], repeats: Callable[[float], int]) -> dict[Entry, Timed]:
    """What entries take, whose work stands in their order: alone, or alone and then a forward, of each."""
    warm_up = seconds_of(lambda: [once() for once in work])
    times = in_turns(*work, repeats=repeats(warm_up))
    each = len(work) // len(entries)
    found = {}
    for place, entry in enumerate(entries):
        by_turn, *forwards = times[each * place : each * (place + 1)]
        find, attend = ([turn[which] for turn in by_turn] for which in (0, 1))
        found[entry] = Timed(find, attend, [seconds for seconds, _ in forwards[0]] if forwards else ())
    return found


def alone(entry: Entry, finders: Finders, layers: Sequence[Layer]) -> tuple[float, float]:
    """Seconds of finding and of attending in all layers, one after the other."""
    every = [_laps(entry, finders.get(layer.site), layer) for layer in layers]
    return sum(find for find, _ in every), sum(attend for _, attend in every)


def _laps(entry: Entry, finder: Finder | None, layer: Layer) -> tuple[float, float]:
    if entry.method == SOFTMAX.method:
        return 0.0, seconds_of(layer.softmax)
    if finder is None:
        return 0.0, seconds_of(partial(layer.attend, None))
    return laps(partial(layer.find, finder), partial(layer.attend, exact=entry.exact))


def _forward(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], entry: Entry, finders: Finders
) -> tuple[float, float]:
    """Seconds of a forward of the whole model. Finders are switched on and off outside of them."""
    plain = entry.method in (SOFTMAX.method, FULL.method)
    with nullcontext() if plain else predicting(model, finders, exact=entry.exact):
        return seconds_of(partial(model, **inputs)), 0.0


def quality(finders: Mapping[Entry, Finders], traces: Traces) -> tuple[dict[Entry, tuple[float, float]], float, int]:
    """Recall and sparsity of entries on traces, how sparse their gold graphs are, and how many sequences these are.

    As in sweeps: ratios of each sequence and head, and their means.
    """
    counts: dict[Entry, list[Array]] = {entry: [] for entry, found in finders.items() if found}
    golds = []
    for site in traces.sites:
        for sample in traces.samples(*site, batch=1):
            gold = GoldPairs(sample, [0], [0])
            golds.append(sparsity(np.diff(gold.ends[:: gold.grid.n]), gold.visible[0]))
            for entry, kept in counts.items():
                counted = tally(GraphMasks(finders[entry][site](sample.q, sample.k, sample.layout)), gold)
                hits, predicted = (each[0, 0, 0] for each in (counted.hits, counted.predicted))
                kept.append(np.stack([recall(hits, counted.gold), sparsity(predicted, counted.visible)]))
    means = {entry: np.concatenate(kept, -1) for entry, kept in counts.items()}
    found = {entry: (float(mean(each[0])), float(mean(each[1]))) for entry, each in means.items()}
    # All pairs are computed, or as many as it takes.
    found |= {entry: (1.0, 0.0) for entry in finders if entry.method == FULL.method}
    return found, float(mean(np.concatenate(golds))), len(traces.samples(*traces.sites[0], batch=1))


def backend_of(layer: Layer) -> str:
    """The implementation of attention that runs here."""
    call = checked(layer.q, layer.k, layer.v, None, layer.alpha, layer.layout, layer.scale, None, 0.0)
    return choose("auto", call).__name__.rpartition(".")[2]
