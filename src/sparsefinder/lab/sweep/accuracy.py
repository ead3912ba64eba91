"""The sweep of sparsity and accuracy: the model runs on predicted graphs, in all chosen layers at once, and is scored.

Each point is a file. Graphs are counted in one teacher-forced pass over the evaluation data: on the same sequences for
every setting, while what a model says when it decodes depends on the setting, and one that rambles to the length limit
looks sparse. Recall is measured against what the model itself would have attended to there (its own gold graphs, which
differ from the teacher's as layers build on layers).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import InputError
from ...finders import Finder, Full
from ...finders.fixed import united
from ...traces.store import Site, Traces
from ..engines import Job, run_jobs
from ..folder import RunFolder, key_of
from ..recipe import Accuracy, Recipe
from ..tasks.base import Task, with_rate
from ..teacher import Teacher
from .grids import grid_of, united_with
from .points import ACCURACY, VERSION, set_aside, write_points
from .run_finders import RunFinders, fetch_keys, made_of
from .settings import FULL, Setting, expand_all
from .watching import Stepped, Watched, by_sequence, decoding_sparsity, mean_missed, mean_ratios

__all__ = ["AccuracyPoint", "accuracy_points", "sweep_accuracy"]


@dataclass(frozen=True)
class AccuracyPoint:
    """A setting with one window and one number of global tokens, and the file that its score goes to."""

    setting: Setting
    window: int
    globals: int
    file: str


def sweep_accuracy(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    """Score the model on the graphs of every point; points that are finished already are left alone."""
    points = accuracy_points(folder, recipe)
    set_aside(folder, "accuracy", [folder / point.file for point in points])
    there = folder.present(point.file for point in points)
    every = [f"finders/{name}" for point in points for name in made_of(point.setting)]
    fitted, teacher = folder.present(every), Teacher(folder, recipe, task)
    jobs = []
    for point in points:
        if point.file not in there:
            finders = {f"finders/{name}" for name in made_of(point.setting)} & fitted
            reads = "teacher", "traces/train/index.json", *sorted(finders)
            about = f"{point.setting.name}, window {point.window}"
            jobs.append(Job(about, 1, (teacher, point), reads, (point.file,)))
    run_jobs(_score, folder, jobs, recipe, "accuracy", "sparsity and score", "point", len(points) - len(jobs))


def accuracy_points(folder: RunFolder, recipe: Recipe) -> list[AccuracyPoint]:
    """All points that a recipe asks for, the full model first. A file's name has a hash of what it depends on."""
    asked = recipe.accuracy or Accuracy()
    settings = grid_of(recipe.sweep).settings if asked.methods is None else expand_all(asked.methods)
    fetch_keys(folder, settings)
    finders = RunFinders(folder, recipe.seed)
    # The traces have a hash of the teacher; the task says what it is measured on.
    task = recipe.task.model_dump(mode="json")
    common = [VERSION, finders.traces.teacher, task, asked.evaluate, _kinds(folder, asked)]
    every = [(FULL, 0, 0)]
    for setting in settings:
        windows, global_tokens = united_with(setting, asked.windows, asked.globals)
        every += [(setting, w, g) for w in windows for g in global_tokens if setting != FULL]
    points = []
    for setting, window, few in dict.fromkeys(every):
        key = key_of(common, finders.key(setting), window, few)
        name = f"{setting.name}-window={window}-globals={few}-{key}.parquet"
        points.append(AccuracyPoint(setting, window, few, f"points/accuracy/{name}"))
    return points


def _kinds(folder: RunFolder, asked: Accuracy) -> tuple[str, ...]:
    """The kinds of attention that are replaced: as asked, or all that were recorded."""
    recorded = dict.fromkeys(kind for kind, _ in Traces.open(folder / "traces/train").sites)
    return tuple(recorded) if asked.kinds is None else asked.kinds


def _stepwise(finder: Finder, site: Site) -> bool:
    """Whether a finder can be asked for one decoding step after the other. An encoder has none."""
    return {"decoder": finder.causal_safe, "cross": finder.query_wise}.get(site[0], True)


def _score(folder: RunFolder, loaded: Teacher, point: AccuracyPoint) -> None:
    """The job: one point."""
    from ...hf.models import predicting

    recipe, task, model = loaded.recipe, loaded.task, loaded.model
    finders = RunFinders(folder, recipe.seed)
    if finders.traces.teacher != loaded.hash:
        want = f"those of the teacher beside them, {loaded.hash[:16]}: `sparsefinder trace` records them"
        raise InputError("traces", f"traces of another teacher, {finders.traces.teacher[:16]}", want)
    asked = recipe.accuracy or Accuracy()
    kinds = _kinds(folder, asked)
    used: dict[Site, Finder] = {}
    for site in finders.traces.sites:
        if site[0] in kinds:
            full = point.setting == FULL
            one = Full() if full else united(finders.at(point.setting, site), point.window, point.globals)
            used[site] = one.to(model.device)
    # To decode step by step with a cache, what a query gets may depend neither on what comes after it nor on others.
    whole = any(not _stepwise(each, site) for site, each in used.items())
    watched = {site: Watched(each, finders.traces.place(*site)) for site, each in used.items()}
    stepped = {site: Stepped(each, whole and site[0] != "encoder") for site, each in used.items()}
    teacher, started = folder / "teacher", time.monotonic()
    with torch.no_grad():
        forced = task.forced(teacher, asked.evaluate, whole_prefix=whole)
        if forced is not None:
            with predicting(model, watched, kinds=kinds):
                for batch in forced:
                    model(**{name: each.to(model.device) for name, each in batch.items()})
        with predicting(model, watched if forced is None else stepped, kinds=kinds):
            score = task.evaluate(model, teacher, asked.evaluate, whole_prefix=whole)
        if not whole:
            with predicting(model, used, kinds=kinds):
                score = with_rate(score, task, model, teacher)
    sequences = {f"sequence_{name}": each.tolist() for name, each in by_sequence(watched.values()).items()}
    setting, details = point.setting, {**score.details, "mass missed": mean_missed(watched.values())}
    row: dict[str, Any] = {
        "method": setting.method, "inputs": setting.inputs, "setting": setting.as_json, "window": point.window,
        "globals": point.globals, "kinds": "+".join(kinds), "metric": score.metric, "score": score.value,
        "details": json.dumps(details, sort_keys=True), **mean_ratios(watched.values()),
        "decoding_sparsity": None if forced is None else decoding_sparsity(stepped.values()), **sequences,
        "sequence_parts": [list(part) for part in score.parts], "sequences": score.sequences,
        "seconds": time.monotonic() - started, "seed": recipe.seed,
    }  # fmt: skip
    write_points(folder / point.file, {name: [value] for name, value in row.items()}, ACCURACY)
