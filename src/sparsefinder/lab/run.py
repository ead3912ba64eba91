"""A run: the stages in their order, each skipped when what it is made from has not changed.

>>> run(load_recipe("recipes/demo-mlm.yaml"), "runs")
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..errors import InputError
from ..files import explaining, write_text
from . import progress
from .checking import check_recipe, check_start, made_folder
from .device import device_of, timed_on
from .folder import RunFolder, key_of
from .memory import keep_freed
from .quiet import quiet
from .recipe import PairFiles, Recipe, Trace, dump_recipe
from .tasks import Task
from .tasks import task as task_of

__all__ = ["STAGES", "keys_of", "run", "say_unfinished", "unfinished"]


@dataclass(frozen=True)
class Stage:
    """One step of a run: what of the recipe it depends on, what it writes, and what does it."""

    name: str
    # Results that are set aside when they are of another key; those of stages without any carry keys in their names.
    results: tuple[str, ...]
    depends: Callable[[Recipe], Any]
    work: Callable[[RunFolder, Recipe, Task], None]


def _train(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    folder.fetch(*folder.present(["training"]))
    check_start(recipe, task, folder / "training")
    task.train(folder / "training", folder / "teacher")
    folder.put("training", "teacher")


def _trace(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    from .trace import trace

    trace(folder, recipe, task)


def _fit(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    from .sweep import fit

    fit(folder, recipe)


def _sweep(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    from .sweep import sweep_accuracy, sweep_recall, sweep_timing, write_summary

    folder.fetch_under("points")
    sweep_recall(folder, recipe)
    if recipe.accuracy is not None:
        sweep_accuracy(folder, recipe, task)
    if recipe.timing is not None:
        sweep_timing(folder, recipe, task)
    folder.fetch_under("points")
    write_summary(folder)
    folder.put("points.csv", "summary.csv")


def _report(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    from .report import write_report

    folder.fetch(*folder.present(["training", "teacher", "traces/examples.jsonl"]))
    for name in ("points", "finders", "traces/valid"):
        folder.fetch_under(name)
    write_report(folder, recipe)
    folder.put("report")


STAGES = (
    Stage("train", ("training", "teacher"), lambda recipe: [_dump(recipe.task), _read(recipe), recipe.seed], _train),
    Stage("trace", ("traces",), lambda recipe: _traced(recipe.trace), _trace),
    Stage("fit", (), lambda recipe: [_dump(part) for part in (recipe.fit, *_swept(recipe))], _fit),
    Stage("sweep", (), lambda recipe: [_points_version(), *map(_dump, _swept(recipe)), *_timed_on(recipe)], _sweep),
    Stage("report", (), lambda recipe: [_dump(recipe.report), recipe.description], _report),
)


def run(
    recipe: Recipe,
    runs: str | Path = "runs",
    until: str = "report",
    say: Callable[[str], None] = print,
) -> RunFolder:
    """Do every stage of a recipe up to one of them, in the folder `runs/NAME`, and return that folder."""
    quiet()
    keep_freed()
    names = [stage.name for stage in STAGES]
    if until not in names:
        raise InputError("until", repr(until), f"one of {', '.join(names)}")
    check_recipe(recipe)
    rank, processes = (int(os.environ.get(name, one)) for name, one in (("RANK", 0), ("WORLD_SIZE", 1)))
    if processes > 1 and until != "train":
        raise InputError("until", f"{until!r} of {processes} processes under torchrun", "'train'; then the rest by one")
    device, folder = device_of(recipe.device), made_folder(runs, recipe)
    if processes > 1:
        from accelerate import PartialState

        # The first to ask says what they meet on: by itself it looks for GPUs.
        PartialState(cpu=device.type == "cpu")
    if rank:
        _train_along(folder, recipe, task_of(recipe.task, recipe.seed, device))
        return folder
    with _alone(folder):
        write_text(folder / "recipe.yaml", dump_recipe(recipe))
        folder.put("recipe.yaml")
        task = task_of(recipe.task, recipe.seed, device)
        for stage, key in keys_of(recipe, until):
            folder.follow(stage.name, *stage.results)
            if folder.finished(stage.name, key):
                say(f"{stage.name}: nothing to do, it is done")
            else:
                say(f"{stage.name}: begins")
                started = time.monotonic()
                folder.begin(stage.name, key, *stage.results)
                try:
                    with explaining(folder.path):
                        stage.work(folder, recipe, task)
                except KeyboardInterrupt as stopped:
                    stopped.add_note(f"stage {stage.name}")
                    raise
                folder.finish(stage.name, key, started)
                say(f"{stage.name}: done in {time.monotonic() - started:.0f} s")
    return folder


def _train_along(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    """One of several processes that train together, but the first: that one writes and speaks for all."""
    (stage, key), *_ = keys_of(recipe, "train")
    if not folder.finished(stage.name, key):
        check_start(recipe, task, folder / "training")
        task.train(folder / "training", folder / "teacher")


def keys_of(recipe: Recipe, until: str = "report") -> Iterator[tuple[Stage, str]]:
    """The stages up to one of them, each with the hash of all that it is made from."""
    before = ""
    for stage in STAGES:
        before = key_of(stage.name, before, stage.depends(recipe))
        yield stage, before
        if stage.name == until:
            return


def unfinished(folder: RunFolder, until: str = "sweep") -> str:
    """Which stages of a run are missing, and the command that does them; nothing where all are done."""
    names = [stage.name for stage in STAGES]
    names = names[: names.index(until) + 1]
    missing = [name for name in names if folder.stamp(name) is None]
    begun = [name for name in missing if (folder / f"stages/{name}.begun").is_file()]
    if not missing:
        return ""
    said = [f"{name} was begun" if name in begun else f"{name} is missing" for name in missing]
    return f"{', '.join(said)}; `sparsefinder run {folder.path}` goes on"


def say_unfinished(folder: RunFolder) -> None:
    """A line on what is missing, if something is."""
    missing = unfinished(folder)
    if missing:
        progress.say(f"This run is not finished: {missing}")


def _swept(recipe: Recipe) -> tuple[BaseModel | None, ...]:
    return recipe.sweep, recipe.accuracy, recipe.timing


def _traced(asked: Trace) -> Any:
    """Without what is newer than keys and left as it is, so that runs from before are as they were."""
    newer = ("tokens_per_sequence", "sequences_per_part")
    as_it_was = {name for name in newer if getattr(asked, name) == Trace.model_fields[name].default}
    return asked.model_dump(mode="json", exclude=as_it_was)


def _timed_on(recipe: Recipe) -> list[str]:
    return [] if recipe.timing is None else timed_on(recipe.device)


def _points_version() -> int:
    """So that what an earlier version measured is measured anew."""
    from .sweep.points import VERSION

    return VERSION


def _dump(part: BaseModel | None) -> Any:
    return None if part is None else part.model_dump(mode="json")


def _read(recipe: Recipe) -> list[Any]:
    """What the data and the checkpoint are made of, so that a changed file is noticed."""
    found: list[Any] = []
    for _, source in recipe.task.data:
        if isinstance(source, PairFiles):
            source = source.source + source.target
        if isinstance(source, str | tuple):
            # The name of a data set stands for itself, and is in the recipe.
            found += [_content(path) for path in ([source] if isinstance(source, str) else source)]
    for path in (recipe.task.checkpoint, recipe.task.tokenizer):
        if path is not None and Path(path).is_dir():
            found += [[file.name, _content(str(file))] for file in sorted(Path(path).iterdir()) if file.is_file()]
    return found


def _content(path: str) -> str:
    """The hash of a file; nothing where there is none, which whoever reads it will say."""
    if not Path(path).is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: RunFolder) -> Iterator[None]:
    """Keep a second process out of the same run. The lock goes with the process, however it ends."""
    with explaining(folder.path):
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("run", f"{folder.path}, where another process is at work", "to wait for it") from None
        yield
    finally:
        os.close(handle)
