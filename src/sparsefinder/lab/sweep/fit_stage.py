"""The fit stage: what the settings of a sweep have to learn from traces, learned once.

`finders/projection/` and `finders/pca/` hold the maps of every layer, `finders/NAME/` a `Sparsefinder` for each setting
that has to be fitted, or whose dial has to be set; settings that differ only in how a fitted finder is used share it.
Each is made layer by layer, on several processes, and appears when it is complete; a key in it says what it was made
from.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...files import whole_file, whole_folder, write_text
from ...finders import Finder, Fitting
from ...finders.budget import Curve
from ...finders.dials import Needs
from ...fitted import Sparsefinder, reached
from ...fitting import Choice, Ways, enough_steps, fit_finder, learn_maps, spent
from ...learning.sample import Sample, mapped
from ...traces.store import Samples, Site, Traces
from ..engines import Job, run_jobs, shares
from ..folder import RunFolder, key_of
from ..recipe import Recipe
from .grids import grid_of, timed_settings
from .run_finders import KEY, RunFinders, fetch_keys, key_in, made_of, shards_of, site_name
from .settings import Setting, expand_all

__all__ = ["fit", "fit_settings", "settings_of"]

# Changes when what is fitted changes for reasons that no recipe shows.
VERSION = 7
# Sequences that dials are set on, at most.
MOST_HELD = 32
Work = Callable[[RunFolder, Recipe, Site, Sequence["_Task"]], None]


def settings_of(recipe: Recipe) -> list[Setting]:
    """Every setting that the sweeps of a recipe use."""
    accuracy = () if recipe.accuracy is None else recipe.accuracy.methods or ()
    timed = [] if recipe.timing is None else [one for some in timed_settings(recipe.timing).values() for one in some]
    return list(dict.fromkeys([*grid_of(recipe.sweep).settings, *expand_all(accuracy), *timed]))


def fit(folder: RunFolder, recipe: Recipe) -> None:
    """Learn all that the settings of a recipe need; what is there already is left alone."""
    fit_settings(folder, recipe, settings_of(recipe))


def fit_settings(folder: RunFolder, recipe: Recipe, settings: Iterable[Setting]) -> None:
    """Learn all that some settings need: maps, then finders in them, then where their dials have to stand."""
    settings = list(settings)
    fetch_keys(folder, settings)
    traces = Traces.open(folder / "traces/train")
    maps = {setting.maps: setting for setting in settings if setting.maps is not None}
    todo = [_Task(name, one, _map_key(one, traces, recipe)) for name, one in sorted(maps.items())]
    _do(folder, recipe, "projections", _learn_maps, todo)
    # Of the settings that share a fit, any: a finder cannot be made without saying how it is used.
    fitted = {setting.fitted: setting for setting in settings if setting.fitted is not None}
    todo = [_Task(each.name, one, _key(each, [one.maps], folder, traces, recipe)) for each, one in fitted.items()]
    _do(folder, recipe, "finders", _fit_layer, todo)
    turned = [setting for setting in settings if setting.wanted is not None]
    parts = {one: [one.maps, None if one.fitted is None else one.fitted.name] for one in turned}
    todo = [_Task(one.name, one, _key(one, parts[one], folder, traces, recipe)) for one in turned]
    _do(folder, recipe, "dials", _turn_layer, todo)


@dataclass(frozen=True)
class _Task:
    """Something to be learned for every layer: its folder in finders/, the setting it is for, what it is made from."""

    name: str
    setting: Setting
    key: str

    def part(self, folder: RunFolder, site: Site) -> Path:
        """Where one layer of it waits for the others."""
        return folder / "finders" / ".parts" / self.name / self.key / site_name(site)


def _do(folder: RunFolder, recipe: Recipe, words: str, work: Work, tasks: Sequence[_Task]) -> None:
    """Do what is not done yet, layer by layer on several processes, and put the layers together."""
    there = folder.present(f"finders/{task.name}" for task in tasks)
    missing = [task for task in tasks if f"finders/{task.name}" not in there or task.key != key_in(folder, task.name)]
    traces = Traces.open(folder / "traces/train")
    sites = traces.sites
    parts = {(task, site): folder.name_of(task.part(folder, site)) for task in missing for site in sites}
    made = folder.present(parts.values())
    fitted = folder.present(f"finders/{name}" for task in tasks for name in made_of(task.setting))
    jobs = []
    for site in sites:
        todo = [task for task in missing if parts[task, site] not in made]
        pieces = shares(len(todo), len(sites), recipe) if todo else 0
        for some in (todo[first::pieces] for first in range(pieces)):
            about = f"{', '.join(task.name for task in some)}, {site[0]} layer {site[1]}"
            names = {f"finders/{name}" for task in some for name in made_of(task.setting)}
            reads = *shards_of(traces, site, "train"), *sorted(names & fitted)
            writes = tuple(parts[task, site] for task in some)
            jobs.append(Job(about, len(some), (recipe, site, some), reads, writes))
    done = len(tasks) * len(sites) - sum(job.size for job in jobs)
    run_jobs(work, folder, jobs, recipe, "fit", words, "fit", done)
    for task in missing:
        folder.fetch(*(parts[task, site] for site in sites))
        with whole_folder(folder / "finders" / task.name) as target:
            _join(task, [task.part(folder, site) for site in sites], sites, target)
            write_text(target / KEY, task.key)
        folder.put(f"finders/{task.name}")
        folder.remove(f"finders/.parts/{task.name}")


def _join(task: _Task, parts: Sequence[Path], sites: Sequence[Site], target: Path) -> None:
    """The layers of maps are files, those of finders folders."""
    if parts[0].is_file():
        for part, site in zip(parts, sites, strict=True):
            shutil.copyfile(part, target / f"{site_name(site)}.safetensors")
        return
    saved = [Sparsefinder.from_pretrained(part) for part in parts]
    about = [layer for each in saved for layer in each.about.get("sites", ())]
    finders = {site: each[site] for site, each in zip(sites, saved, strict=True)}
    budget = None if task.setting.wanted is None else task.setting.wanted.budget
    if budget is not None and about:
        curves = {site: [Curve.of(curve) for curve in one["curves"]] for site, one in zip(sites, about, strict=True)}
        chosen = spent({site: Ways([one], [curves[site]], [0.0]) for site, one in finders.items()}, budget)
        finders = {site: each.finder for site, each in chosen.items()}
        about = [reached(site, each) for site, each in chosen.items()]
    Sparsefinder(finders, {**saved[0].about, "sites": about}).save_pretrained(target)


def _learn_maps(folder: RunFolder, recipe: Recipe, site: Site, todo: Sequence[_Task]) -> None:
    """The job: some maps of one layer."""
    traces = Traces.open(folder / "traces/train")
    size, enough = enough_steps(len(traces.samples(*site, batch=1)), recipe.fit.batch, how(recipe))
    samples = traces.samples(*site, size, seed=recipe.seed)
    for task in todo:
        maps = learn_maps(task.setting.inputs, task.setting.finder, samples, enough)
        assert maps is not None
        with whole_file(task.part(folder, site)) as file:
            maps.save(file)


def _fit_layer(folder: RunFolder, recipe: Recipe, site: Site, todo: Sequence[_Task]) -> None:
    """The job: some finders of one layer. Those on the same maps read queries and keys once, projected."""
    # Loaded before its threads are limited: only then they are.
    import sklearn.cluster  # noqa: F401
    from threadpoolctl import threadpool_limits

    finders = RunFinders(folder, recipe.seed)
    raw = finders.traces.samples(*site, recipe.fit.batch, seed=recipe.seed)
    kept: dict[str, list[Sample]] = {}
    with threadpool_limits(1):
        for task in todo:
            samples: Iterable[Sample] = raw
            maps, name = finders.projection(task.setting, site), task.setting.maps
            if maps is not None and name is not None:
                samples = kept[name] = kept.get(name) or [mapped(sample, maps) for sample in raw]
            fitted = fit_finder(task.setting.finder, samples, how(recipe))
            _save(task, folder, site, fitted if maps is None else replace(fitted, projection=maps))  # type: ignore[call-arg]


def _turn_layer(folder: RunFolder, recipe: Recipe, site: Site, todo: Sequence[_Task]) -> None:
    """The job: some dials of one layer. Settings that want different things of one finder look at its pairs once."""
    finders = RunFinders(folder, recipe.seed)
    known: dict[Setting, tuple[Finder, Needs]] = {}
    for task in todo:
        same, wanted = task.setting.unturned, task.setting.wanted
        assert wanted is not None
        if same not in known:
            one = finders.before_turning(task.setting, site)
            known[same] = one, Needs(one, _held(finders.traces, site))
        one, needs = known[same]
        if wanted.budget is not None:
            # It takes all layers to say where its dial stands: see `_join`.
            _save(task, folder, site, one, {"curves": [asdict(curve) for curve in needs.curves()]})
            continue
        settings = needs.settings(**wanted.as_settings)
        found = Choice(one.turned(settings), needs.recall(settings).tolist(), needs.sparsity(settings).tolist())
        _save(task, folder, site, found.finder, reached(site, found))


def _save(task: _Task, folder: RunFolder, site: Site, one: Finder, about: Mapping[str, Any] | None = None) -> None:
    said = {"method": task.setting.method, "inputs": task.setting.inputs, "settings": task.setting.values}
    sites = [] if about is None else [about]
    with whole_folder(task.part(folder, site)) as target:
        Sparsefinder({site: one}, {**said, "sites": sites}).save_pretrained(target)


def how(recipe: Recipe) -> Fitting:
    """How a recipe has things fitted."""
    asked = recipe.fit
    return Fitting(
        recipe.seed, asked.tokens, asked.restarts, asked.r, asked.margin, asked.learning_rate, asked.epochs,
        asked.shared, asked.summed,
    )  # fmt: skip


def _held(traces: Traces, site: Site) -> Samples:
    """The sequences that dials are set on: the last of those that things are learned from."""
    every = len(traces.samples(*site, batch=1))
    return traces.samples(*site, batch=4, start=every - max(1, min(every // 5, MOST_HELD)))


def _map_key(setting: Setting, traces: Traces, recipe: Recipe) -> str:
    asked = asdict(how(recipe)) if setting.inputs != "pca" else {"r": recipe.fit.r}
    learned = {name: value for name, value in asked.items() if name not in ("tokens", "restarts")}
    return key_of(VERSION, setting.maps, traces.hash, learned, recipe.fit.batch)


def _key(setting: Setting, made_of: Sequence[str | None], folder: RunFolder, traces: Traces, recipe: Recipe) -> str:
    keys = [name and key_in(folder, name) for name in made_of]
    return key_of(VERSION, setting.name, setting.as_json, traces.hash, keys, asdict(how(recipe)), recipe.fit.batch)
