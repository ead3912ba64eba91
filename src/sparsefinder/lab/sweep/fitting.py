"""The fit stage: what the settings of a sweep have to learn from traces, learned once.

`finders/projection/` and `finders/pca/` hold the maps of every layer, `finders/NAME/` a `Sparsefinder` for each setting
that has to be fitted; settings that differ only in how a fitted finder is used share it. Each is made layer by layer,
on several processes, and appears when it is complete; a key in it says what it was made from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from ...files import whole_file, whole_folder, write_text
from ...finders.base import finder_class, projected
from ...fitted import Sparsefinder, fit_finder
from ...learning.learn import learn
from ...learning.moments import principal
from ...learning.projection import Projection
from ...learning.sample import Sample
from ...traces.store import Samples, Site, Traces
from ..folder import RunFolder, key_of
from ..recipe import Fit, Recipe
from .finding import KEY, Finders, key_in, map_name, site_name
from .grids import grid_of, timed_settings
from .jobs import Job, run_jobs, shares
from .settings import Setting, expand_all

__all__ = ["fit", "fit_settings", "settings_of"]

# Changes when what is fitted changes for reasons that no recipe shows.
VERSION = 1


def settings_of(recipe: Recipe) -> list[Setting]:
    """Every setting that the sweeps of a recipe use."""
    accuracy = () if recipe.accuracy is None else recipe.accuracy.methods or ()
    timed = [] if recipe.timing is None else timed_settings(recipe.timing)
    return list(dict.fromkeys([*grid_of(recipe.sweep).settings, *expand_all(accuracy), *timed]))


def fit(folder: RunFolder, recipe: Recipe) -> None:
    """Learn all that the settings of a recipe need; what is there already is left alone."""
    fit_settings(folder, recipe, settings_of(recipe))


def fit_settings(folder: RunFolder, recipe: Recipe, settings: Iterable[Setting]) -> None:
    """Learn all that some settings need."""
    settings = list(settings)
    traces = Traces.open(folder / "traces/train")
    processes = recipe.sweep.processes
    maps = sorted({name for setting in settings if (name := map_name(setting)) is not None})
    missing = {name: key for name in maps if (key := _map_key(name, traces, recipe)) != key_in(folder, name)}
    jobs = [
        Job(f"{name}, {site[0]} layer {site[1]}", 1, (folder.path, recipe, name, site, _part(folder, name, key, site)))
        for name, key in missing.items()
        for site in traces.sites
        if not _part(folder, name, key, site).exists()
    ]
    run_jobs(_learn_maps, jobs, processes, "projections")
    for name, key in missing.items():
        with whole_folder(folder / "finders" / name) as target:
            for site in traces.sites:
                shutil.copyfile(_part(folder, name, key, site), target / f"{site_name(site)}.safetensors")
            write_text(target / KEY, key)
        _clear(folder, name)
    _fit_finders(folder, recipe, settings, traces)


def _fit_finders(folder: RunFolder, recipe: Recipe, settings: Sequence[Setting], traces: Traces) -> None:
    # Of the settings that share a fit, the first: a finder cannot be made without saying how it is used.
    examples: dict[Setting, Setting] = {}
    for setting in settings:
        if setting.fitted is not None:
            examples.setdefault(setting.fitted, setting)
    keys = {fitted: _fit_key(fitted, folder, traces, recipe) for fitted in examples}
    missing = {fitted: key for fitted, key in keys.items() if key != key_in(folder, fitted.name)}
    jobs = []
    pieces = shares(len(missing), len(traces.sites), recipe.sweep.processes)
    for site in traces.sites:
        todo = [
            (examples[fitted], part)
            for fitted, key in missing.items()
            if not (part := _part(folder, fitted.name, key, site)).exists()
        ]
        for first in range(pieces):
            some = todo[first::pieces]
            if some:
                about = f"{', '.join(setting.name for setting, _ in some)}, {site[0]} layer {site[1]}"
                jobs.append(Job(about, len(some), (folder.path, recipe, site, some)))
    run_jobs(_fit_layer, jobs, recipe.sweep.processes, "finders")
    for fitted, key in missing.items():
        parts = [Sparsefinder.from_pretrained(_part(folder, fitted.name, key, site)) for site in traces.sites]
        with whole_folder(folder / "finders" / fitted.name) as target:
            Sparsefinder({site: part[site] for site, part in zip(traces.sites, parts, strict=True)}).save_pretrained(
                target
            )
            write_text(target / KEY, key)
        _clear(folder, fitted.name)


def _learn_maps(path: Path, recipe: Recipe, name: str, site: Site, target: Path) -> None:
    """The job: the maps of one layer."""
    samples = _samples(RunFolder(path), recipe, site)
    if name == "pca":
        projection = principal(samples, recipe.fit.r)
    else:
        asked = recipe.fit
        projection = learn(
            samples, asked.r, margin=asked.margin, rate=asked.learning_rate, epochs=asked.epochs,
            block=_block_of(name), seed=recipe.seed,
        )  # fmt: skip
    with whole_file(target) as file:
        projection.save(file)


def _fit_layer(path: Path, recipe: Recipe, site: Site, todo: Sequence[tuple[Setting, Path]]) -> None:
    """The job: some finders of one layer. Those on the same maps read queries and keys once, projected."""
    # Loaded before its threads are limited: only then they are.
    import sklearn.cluster  # noqa: F401
    from threadpoolctl import threadpool_limits

    finders = Finders(RunFolder(path), recipe.seed)
    raw = _samples(finders.folder, recipe, site)
    kept: dict[str, list[Sample]] = {}
    with threadpool_limits(1):
        for setting, target in todo:
            samples: Iterable[Sample] = raw
            projection = finders.projection(setting, site)
            if projection is not None:
                name = map_name(setting)
                assert name is not None
                samples = kept[name] = kept.get(name) or [_mapped(sample, projection) for sample in raw]
            given = _fit_settings_of(setting, recipe.fit)
            fitted = fit_finder(setting.method, samples, None, recipe.seed, given)
            if projection is not None:
                fitted = replace(fitted, projection=projection)  # type: ignore[call-arg]
            with whole_folder(target) as folder:
                Sparsefinder({site: fitted}).save_pretrained(folder)


def _fit_settings_of(setting: Setting, asked: Fit) -> dict[str, Any]:
    """What a method is fitted with: its own parameters, and where centroids are computed, from how much."""
    takes = signature(finder_class(setting.method).fit).parameters  # type: ignore[attr-defined]
    common = {"most": asked.tokens, "restarts": asked.restarts} if "restarts" in takes else {}
    return {**common, **setting.values}


def _mapped(sample: Sample, projection: Projection) -> Sample:
    q, k = projected(projection, sample.q, sample.k)
    return Sample(q, k, sample.layout, sample.score_scale, sample.alpha)


def _samples(folder: RunFolder, recipe: Recipe, site: Site) -> Samples:
    return Traces.open(folder / "traces/train").samples(*site, recipe.fit.batch, seed=recipe.seed)


def _block_of(name: str) -> int:
    return int(name.rpartition("=")[2]) if "=" in name else 1


def _map_key(name: str, traces: Traces, recipe: Recipe) -> str:
    asked = recipe.fit
    learning = [asked.margin, asked.learning_rate, asked.batch, asked.epochs, recipe.seed] if name != "pca" else []
    return key_of(VERSION, name, traces.hash, asked.r, learning)


def _fit_key(setting: Setting, folder: RunFolder, traces: Traces, recipe: Recipe) -> str:
    asked, name = recipe.fit, map_name(setting)
    maps = None if name is None else key_in(folder, name)
    return key_of(
        VERSION, setting.name, setting.as_json, traces.hash, maps, asked.tokens, asked.restarts, asked.batch,
        recipe.seed,
    )  # fmt: skip


def _part(folder: RunFolder, name: str, key: str, site: Site) -> Path:
    return folder / "finders" / ".parts" / name / key / site_name(site)


def _clear(folder: RunFolder, name: str) -> None:
    shutil.rmtree(folder / "finders" / ".parts" / name, ignore_errors=True)
