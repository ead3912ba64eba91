"""Sparsefinder: a fitted finder for every attention layer of a model, learned from traces, saved and loaded.

>>> fitted = Sparsefinder.fit(traces, "kmeans", clusters=16, extra=Window(11) | GlobalTokens(1))
>>> fitted = Sparsefinder.fit(traces, "sketch", recall=0.99)  # each head at the highest sparsity that reaches it
>>> fitted.save_pretrained("runs/demo/finders")
>>> with predicting(model, Sparsefinder.from_pretrained("runs/demo/finders")):
...     model(**inputs)
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm.auto import tqdm

from .core.metrics import GraphMetrics
from .errors import InputError
from .finders import Finder, Heads
from .finders.base import finder as finder_by_name
from .finders.base import finder_class
from .finders.state import restored, state_of
from .learning.learn import learn
from .learning.projection import Projection
from .learning.sample import Sample
from .traces.store import Samples, Site, Traces

__all__ = ["GRIDS", "METRIC", "Sparsefinder", "fit_finder", "split_settings"]

FORMAT = 1
CONFIG, TENSORS = "finders.json", "finders.safetensors"

# The settings that a wanted recall is looked for among, unless they are given.
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "distance": {"t": (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)},
    "quantization": {"beta": (2, 4, 8, 16, 32)},
    "kmeans": {"clusters": (4, 8, 16, 32), "top_k": (1, 2)},
    "routing": {"clusters": (2, 4, 8, 16)},
    "sketch": {"r": (8,), "share": (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)},
    "probe": {"clusters": (32,), "probes": (1, 2, 3, 4, 6, 8, 12, 16)},
}
# These look for closeness, which the paper's projection is learned for.
METRIC = ("block-centroids", "block-topk", "distance", "kmeans", "quantization")
# Settings that only say how a fitted finder is used: nothing has to be fitted again for another one.
CHEAP = ("t", "top_k", "probes", "share", "slack", "k", "size", "squared")


@dataclass(frozen=True, eq=False)
class Sparsefinder(Mapping[Site, Finder]):
    """A finder for each (kind, layer): a mapping, as `predicting` takes it."""

    finders: Mapping[Site, Finder]

    def __getitem__(self, site: Any) -> Finder:
        return self.finders[site]

    def __iter__(self) -> Iterator[Site]:
        return iter(self.finders)

    def __len__(self) -> int:
        return len(self.finders)

    @classmethod
    def fit(
        cls,
        traces: Traces,
        method: str = "kmeans",
        *,
        recall: float | None = None,
        held_out: float = 0.2,
        extra: Finder | None = None,
        projections: Mapping[Site, Projection] | None = None,
        batch: int = 16,
        seed: int = 0,
        progress: bool = True,
        **settings: Any,
    ) -> Sparsefinder:
        """Fit a method to every layer of the traces.

        method, settings: its name in FINDERS and what it is fitted with, such as clusters=16.
        recall: choose for each head, among settings given as lists (GRIDS if none are), the one of the highest sparsity
        that reaches this recall on held-out sequences; where none does, the one that comes closest.
        held_out: the share of sequences to choose on.
        extra: united with every layer's finder: Window(11) | GlobalTokens(1), say.
        projections: for the methods of the paper; learned here if None.
        batch: sequences to a step of learning.
        progress: a bar over the layers, and one over the steps of learning with the loss.
        """
        if recall is not None and not 0 < recall <= 1:
            raise InputError("recall", recall, "a share of the gold pairs, above 0 and up to 1")
        if not 0 < held_out < 1:
            raise InputError("held_out", held_out, "a share of the sequences between 0 and 1")
        finder_class(method)
        finders: dict[Site, Finder] = {}
        site: Site
        for site in tqdm(traces.sites, desc=method, unit="layer", disable=not progress, leave=False):
            every = len(traces.samples(*site, batch=1))
            stop = every if recall is None else max(1, min(every - 1, round(every * (1 - held_out))))
            samples = traces.samples(*site, batch, stop=stop, seed=seed)
            projection = None
            if method in METRIC:
                given = None if projections is None else projections[site]
                projection = given or _learned(samples, site, settings, seed, progress)
            if recall is None:
                found: Finder = next(iter(_candidates(method, samples, projection, seed, settings)))
                finders[site] = found if extra is None else found | extra
            else:
                grid = {**GRIDS.get(method, {}), **settings}
                candidates = list(_candidates(method, samples, projection, seed, grid))
                held = traces.samples(*site, batch=4, start=stop)
                finders[site] = _chosen(candidates, held, recall, extra)
        return cls(finders)

    def save_pretrained(self, path: str | Path) -> None:
        """Write the finders to a folder: their settings as JSON, their tensors as safetensors."""
        tensors: dict[str, Tensor] = {}
        sites = [
            {"kind": kind, "layer": layer, "finder": state_of(finder, f"{kind}.{layer}", tensors)}
            for (kind, layer), finder in self.items()
        ]
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            (folder / CONFIG).write_text(json.dumps({"format": FORMAT, "sites": sites}, indent=1))
            save_file({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, folder / TENSORS)
            target.mkdir(exist_ok=True)
            # The settings last: a folder that has them has everything.
            for name in (TENSORS, CONFIG):
                os.replace(folder / name, target / name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def from_pretrained(cls, path: str | Path) -> Sparsefinder:
        """Read what `save_pretrained` wrote."""
        file = Path(path) / CONFIG
        if not file.is_file():
            raise InputError("path", path, f"a folder that save_pretrained wrote, with its {CONFIG}")
        config = json.loads(file.read_text())
        if config.get("format") != FORMAT:
            raise InputError("path", f"{path} of format {config.get('format')}", f"finders of format {FORMAT}")
        tensors = load_file(Path(path) / TENSORS)
        return cls({(site["kind"], site["layer"]): restored(site["finder"], tensors) for site in config["sites"]})


def _learned(samples: Samples, site: Site, settings: Mapping[str, Any], seed: int, progress: bool) -> Projection:
    with tqdm(total=len(samples), desc=f"{site[0]} layer {site[1]}", disable=not progress, leave=False) as bar:

        def show(step: int, loss: float) -> None:
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}")

        blocks = {name: settings[name] for name in ("block", "chunk") if name in settings}
        return learn(samples, seed=seed, progress=show, **blocks)


def split_settings(method: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that a method has to be fitted for, and those that only say how a fitted finder is used."""
    kept_as = {each.name for each in fields(finder_class(method))}
    cheap = {name: value for name, value in settings.items() if name in CHEAP and name in kept_as}
    return {name: value for name, value in settings.items() if name not in cheap}, cheap


def fit_finder(
    method: str, samples: Iterable[Sample], projection: Projection | None, seed: int, settings: Mapping[str, Any]
) -> Finder:
    """A method fitted to the samples of one layer."""
    fit: Callable[..., Finder] = finder_class(method).fit  # type: ignore[attr-defined]
    own: dict[str, Any] = {} if projection is None else {"projection": projection}
    seeded = {"seed": seed} if "seed" in inspect.signature(fit).parameters else {}
    return fit(samples, **own, **settings, **seeded)


def _candidates(
    method: str, samples: Iterable[Sample], projection: Projection | None, seed: int, settings: Mapping[str, Any]
) -> Iterator[Finder]:
    """The method with every combination of the settings that are given as lists."""
    lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in settings.items()}
    costly, cheap = split_settings(method, lists)
    own: dict[str, Any] = {} if projection is None else {"projection": projection}
    fits = _fits(method, lists)
    for dear in _combinations(costly):
        choices = _combinations(cheap)
        if fits:
            yield from _fitted_once(method, samples, projection, seed, dear, choices)
        else:
            yield from (finder_by_name(method, **own, **dear, **choice) for choice in choices)


def _fits(method: str, names: Iterable[str]) -> bool:
    """Whether a method is fitted to samples with these settings, rather than made of them."""
    fit = getattr(finder_class(method), "fit", None)
    return fit is not None and set(names) <= inspect.signature(fit).parameters.keys()


def _fitted_once(
    method: str,
    samples: Iterable[Sample],
    projection: Projection | None,
    seed: int,
    dear: Mapping[str, Any],
    choices: Iterable[Mapping[str, Any]],
) -> Iterator[Finder]:
    """A method fitted with the first of the choices, and the fit used in the ways that the others ask for."""
    fitted: Finder | None = None
    for choice in choices:
        if fitted is None:
            fitted = fit_finder(method, samples, projection, seed, {**dear, **choice})
            yield fitted
        elif _possible(fitted, choice):
            yield replace(fitted, **choice)


def _combinations(lists: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def _possible(fitted: Finder, choice: Mapping[str, Any]) -> bool:
    """Whether there are as many centroids as a choice asks for."""
    centroids = getattr(fitted, "centroids", None)
    most = centroids.shape[1] if isinstance(centroids, Tensor) else None
    return most is None or all(choice.get(name, 1) <= most for name in ("top_k", "probes"))


def _chosen(candidates: list[Finder], held: Iterable[Sample], recall: float, extra: Finder | None) -> Finder:
    """For each head the candidate that reaches the recall at the highest sparsity."""
    metrics = [GraphMetrics() for _ in candidates]
    fixed = [each if extra is None else each | extra for each in candidates]
    for sample in held:
        gold = sample.gold
        for finder, metric in zip(fixed, metrics, strict=True):
            metric.update(finder(sample.q, sample.k, sample.layout), gold)
    recalls, sparsities = (
        torch.stack([each.by_head(ratio)[0] for each in metrics]) for ratio in ("recall", "sparsity")
    )
    best = _best(recalls, sparsities, recall)
    used = sorted(set(best))
    chosen = Heads(tuple(candidates[one] for one in used), tuple(used.index(one) for one in best))
    return chosen if extra is None else chosen | extra


def _best(recalls: Float[Tensor, "count heads"], sparsities: Float[Tensor, "count heads"], wanted: float) -> list[int]:
    enough = recalls >= wanted
    by_sparsity = torch.where(enough, sparsities, -1.0).argmax(0)
    return torch.where(enough.any(0), by_sparsity, recalls.argmax(0)).tolist()
