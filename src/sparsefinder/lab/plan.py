"""What a run would do, before it does it: its stages, how much of what, how long, and how much disk.

How long comes from the stages themselves: they are run in small, a few steps, sequences and one layer, into a folder
that is thrown away, and what they take there is scaled to the whole. Whatever would stop the run stops this too.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import read_json, write_text
from ..traces.store import INDEX, Traces
from .checking import check_recipe, check_start
from .device import device_of
from .engines.local import processes_of
from .folder import RunFolder
from .progress import Steps, duration, measured, say
from .quiet import quiet
from .recipe import CausalLM, Engine, MaskedLM, Method, Recipe, Training, Translation
from .run import keys_of, run
from .sweep.fit_stage import settings_of
from .sweep.grids import grid_of, timed_settings, united_with
from .sweep.settings import FULL, expand_all
from .tasks import Task
from .tasks import task as task_of
from .tasks.checkpoints import steps_in_a_pass
from .tasks.data import read_pairs, read_texts

__all__ = ["plan"]

# Of the run in small: steps, sequences to fit on, to measure on, and to score on.
STEPS, TRAIN, VALID, SCORED = 5, 5, 4, 16
# Checkpoints that are kept, and the last one's copy as the teacher.
KEPT = 3
# In a token, about.
CHARACTERS = 4
# The spread of scores that makes attention about as sparse as a trained model's.
SPREAD = 4.0
STAGES = {
    "train": ("training",),
    "trace": ("tracing",),
    "fit": ("projections", "finders", "dials"),
    "sweep": ("sparsity and recall", "sparsity and score", "timing"),
}


@dataclass(frozen=True)
class Part:
    """Some of a stage's work: how often what, and how much of it a sequence's worth is."""

    title: str
    count: float
    words: str
    size: float = 1


def plan(recipe: Recipe, runs: Path, times: bool) -> Iterator[str]:
    """Check a recipe and say what its run would do, line by line."""
    quiet()
    check_recipe(recipe)
    folder = _folder(runs, recipe)
    with tempfile.TemporaryDirectory() as place:
        task = task_of(recipe.task, recipe.seed, device_of(recipe.device))
        check_start(recipe, task, Path(place) / "training")
        _, model = task.prepare(Path(place) / "training")
        layers = _layers(recipe, task, model)
        weights = sum(each.numel() for each in model.parameters())
        done = {stage.name for stage, key in keys_of(recipe) if folder.finished(stage.name, key)}
        yield f"{recipe.name}: {recipe.description}" if recipe.description else recipe.name
        yield f"into {folder.path}, {weights:,} weights, {layers} layers to look at, on {device_of(recipe.device)}"
        took, disk, pass_steps = _in_small(recipe, Path(place)) if times else ({}, {}, None)
    yield ""
    total: dict[str, float] = {}
    small = {each.title: each for each in _parts(_small(recipe), _kinds(recipe, task))}
    whole = _parts(recipe, layers, pass_steps)
    for stage, titles in STAGES.items():
        some = [part for part in whole if part.title in titles]
        for part in some:
            seconds = _scaled(part, small[part.title], took.get(part.title))
            total[stage] = total.get(stage, 0) + (0 if stage in done else seconds or 0)
            about = "done" if stage in done else "" if seconds is None else f"about {duration(seconds)}"
            yield f"{stage:6} {part.title:20} {part.words:34} {about}".rstrip()
    if times:
        yield f"{'':6} {'in all':20} {'':34} about {duration(sum(total.values()))}"
        yield ""
        held = _bytes(_disk(recipe, layers, disk, _kinds(recipe, task)))
        yield f"disk: about {held}, most of it traces and checkpoints"


def _folder(runs: Path, recipe: Recipe) -> RunFolder:
    """Where the run would go, which has to be a place that can be written to; nothing is left there."""
    there = next(each for each in (runs / recipe.name, runs, *runs.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        want = "a folder, there or to be made, that may be written to"
        raise InputError("--runs", f"{runs}: {there} cannot be written to: {error.strerror}", want) from error
    return RunFolder(runs / recipe.name)


def _kinds(recipe: Recipe, task: Task) -> int:
    """The layers of the run in small: one of each kind."""
    from .trace import kinds_of

    return len(kinds_of(recipe, task))


def _layers(recipe: Recipe, task: Task, model: Any) -> int:
    from ..hf.sites import chosen_sites
    from .trace import kinds_of

    return len(chosen_sites(model, kinds_of(recipe, task), recipe.trace.layers))


def _parts(recipe: Recipe, layers: int, pass_steps: float | None = None) -> list[Part]:
    """How much of what; sizes are sequences, where a piece takes longer the more of them there are.

    pass_steps: the steps of one pass over the training data, where they are known.
    """
    grid, settings, trace, training = grid_of(recipe.sweep), settings_of(recipe), recipe.trace, recipe.task.training
    sweep = recipe.sweep.sequences or trace.valid
    maps = {one.maps for one in settings} - {None}
    fits = {one.fitted for one in settings} - {None}
    turned = [one for one in settings if one.wanted is not None]
    families = {one.family for one in grid.settings}
    points = Counter(
        (one.family, window, few)
        for one in grid.settings
        for each in [united_with(one, grid.windows, grid.globals)]
        for window in each[0]
        for few in each[1]
    )
    parallel = processes_of(recipe.sweep.processes)
    seen = min(trace.train * recipe.task.length, recipe.fit.tokens)
    found = [
        _training(training, pass_steps),
        Part("tracing", trace.train + trace.valid, f"{trace.train:,} + {trace.valid:,} sequences"),
        Part("projections", len(maps) * layers / parallel, f"{len(maps)} × {layers} layers", trace.train),
        Part("finders", len(fits) * layers / parallel, f"{len(fits)} × {layers} layers", seen),
        Part("dials", len(turned) * layers / parallel, f"{len(turned)} × {layers} layers", min(trace.train, 160)),
        Part(
            "sparsity and recall", len(families) * layers / parallel,
            f"{len(grid.settings)} settings, {sum(points.values()):,} points", sweep,
        ),
    ]  # fmt: skip
    if recipe.accuracy is not None:
        asked = recipe.accuracy
        chosen = grid.settings if asked.methods is None else expand_all(asked.methods)
        count = 1 + sum(
            len(windows) * len(few)
            for one in chosen
            if one != FULL
            for windows, few in [united_with(one, asked.windows, asked.globals)]
        )
        scored = _scored(recipe.task, asked.evaluate)
        found.append(Part("sparsity and score", count, f"{count:,} points on {scored:,} sequences", scored))
    if recipe.timing is not None:
        passes = sum(len(some) + 2 for some in timed_settings(recipe.timing).values()) * (recipe.timing.repeats + 1)
        most = min(recipe.timing.sequences, recipe.task.evaluate or recipe.timing.sequences)
        found.append(Part("timing", passes, f"{passes:,} passes over {most} sequences", most))
    return found


def _scored(task: MaskedLM | CausalLM | Translation, asked: int | None) -> int:
    """How many sequences a point is measured on: of a text about so many, as it is not cut yet."""
    if isinstance(task, Translation):
        every = len(read_pairs(task.data.test))
    else:
        every = max(1, sum(map(len, read_texts(task.data.valid))) // (CHARACTERS * task.length))
    return min(asked or task.evaluate or every, every)


def _training(training: Training, pass_steps: float | None) -> Part:
    size = (training.tokens or training.batch) * training.accumulate
    step = f"{size:,} {'tokens' if training.tokens else 'sequences'}"
    if training.epochs is None:
        return Part("training", training.steps, f"{training.steps:,} steps of {step}")
    epochs = f"{training.epochs:g} epoch{'' if training.epochs == 1 else 's'}"
    if pass_steps is None:
        return Part("training", math.nan, epochs)
    # As the Trainer counts them.
    steps = math.ceil(training.epochs * pass_steps)
    return Part("training", steps, f"{epochs}, {steps:,} × {step}")


def _small(recipe: Recipe) -> Recipe:
    """The same run with little of everything, on one process."""
    task, trace = recipe.task, recipe.trace
    if task.training.changes_the_model:
        less = {"steps": STEPS, "epochs": None, "every": STEPS, "patience": None, "log_to": ()}
        task = task.model_copy(update={"training": task.training.model_copy(update=less)})
    accuracy, timing = recipe.accuracy, recipe.timing
    if accuracy is not None:
        few = {"evaluate": SCORED, "windows": accuracy.windows[:1], "globals": accuracy.globals[:1]}
        some = expand_all(accuracy.methods or ())[:2] or grid_of(recipe.sweep).settings[:1]
        methods = tuple(Method(method=one.method, inputs=None, settings=one.values) for one in some)
        accuracy = accuracy.model_copy(update={**few, "methods": methods})
    if timing is not None:
        one = {name: getattr(timing, name)[:1] for name in ("blocks", "sizes", "clusters")}
        timing = timing.model_copy(update={**one, "sequences": SCORED, "repeats": 1})
    return recipe.model_copy(update={
        "name": "small",
        "engine": Engine(),
        "task": task.model_copy(update={"evaluate": SCORED}),
        "trace": trace.model_copy(update={"train": TRAIN, "valid": VALID, "layers": (trace.layers or (0,))[:1]}),
        "sweep": recipe.sweep.model_copy(update={"processes": 1, "sequences": None}),
        "accuracy": accuracy, "timing": timing,
    })  # fmt: skip


def _in_small(recipe: Recipe, place: Path) -> tuple[dict[str, Steps], dict[str, int], float | None]:
    """What each part took, how much each folder holds, and the steps of a pass over the training data."""
    say("trying all stages in small:")
    small = _small(recipe)
    with measured() as found:
        _sharpen(run(small, place, "trace", say=lambda line: None))
        folder = run(small, place, "sweep", say=lambda line: None)
    took = {each.title: each for each in found}
    held = {name: _held(folder / name) for name in ("training", "teacher", "traces", "finders", "points")}
    return took, held, steps_in_a_pass(folder / "training")


def _sharpen(folder: RunFolder) -> None:
    """Attention of a model that has learned nothing is even, and nothing could be fitted to it: raise its scores."""
    for part in ("train", "valid"):
        file = folder / f"traces/{part}" / INDEX
        index = read_json(file)
        for site in index["sites"]:
            sample = next(iter(Traces.open(file.parent).samples(site["kind"], site["layer"], batch=1)))
            site["scale"] = SPREAD / max(float((sample.q @ sample.k.mT).std()), 1e-9)
        write_text(file, json.dumps(index))


def _scaled(whole: Part, small: Part, took: Steps | None) -> float | None:
    """The time of a part: as long as in small, times how much more there is of it."""
    if not whole.count:
        return 0
    if took is None or not took.done:
        return None
    return took.pace * took.done * (whole.count / small.count) * (whole.size / small.size)


def _disk(recipe: Recipe, layers: int, held: dict[str, int], kinds: int) -> float:
    deeper, trace = layers / kinds, recipe.trace
    traces = held["traces"] * deeper * (trace.train + trace.valid) / (TRAIN + VALID)
    return held["teacher"] + KEPT * held["training"] + traces + deeper * (held["finders"] + held["points"])


def _held(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
