"""Units of work that any engine does: a list of jobs, and a function that does one and writes its results itself.

Nothing comes back from a job, so that one that fails, or a run that is killed, takes nothing with it that was finished.
A job says by name what it reads and writes of the run's folder; where that is kept elsewhere, the engine copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import InputError, SparsefinderError
from ..folder import RunFolder
from ..memory import keep_freed
from ..progress import say, steps
from ..recipe import Recipe
from .local import done_here, done_in_processes, processes_of

__all__ = ["Job", "JobError", "run_jobs", "shares"]

# Stages whose units take a whole model: one at a time on a machine, with all of its threads. Those of the others have
# one thread each, so that they give the same however many of them there are.
OF_MODELS = ("trace", "accuracy")
# Tasks of a Ray cluster that the work of each layer is cut into.
PIECES = 16


class JobError(SparsefinderError):
    """Some jobs failed; what the others did is there."""


@dataclass(frozen=True)
class Job:
    """What a function is called with after the folder, what it is about, and how many pieces of work it is.

    reads, writes: files and folders of the run.
    """

    about: str
    size: int
    arguments: tuple[Any, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


Work = Callable[..., None]


@dataclass(frozen=True)
class Unit:
    """A job with what does it: what engines hand out."""

    work: Work
    folder: RunFolder
    job: Job
    threads: int

    def do(self) -> None:
        """Do it, on copies of what it reads where the folder is elsewhere, and copy what it wrote."""
        self.folder.fetch(*self.job.reads)
        keep_freed()
        try:
            with _threads(self.threads):
                self.work(self.folder, *self.job.arguments)
        finally:
            # Some of it may be done although it failed.
            self.folder.put(*self.job.writes)


def run_jobs(
    work: Work,
    folder: RunFolder,
    jobs: Sequence[Job],
    recipe: Recipe,
    stage: str,
    title: str,
    unit: str = "piece",
    done: int = 0,
) -> None:
    """Do all jobs with the recipe's engine. What a job gives is the same whichever that is.

    stage: "trace", "fit", "sweep" or "accuracy": what a unit needs is said by stage.
    title, unit, done: what is shown meanwhile: what is done, what is counted, and how many were done before.
    """
    needs = getattr(recipe.engine, stage)
    threads = needs.cpus or torch.get_num_threads() if stage in OF_MODELS else 1
    units = [Unit(work, folder, job, threads) for job in jobs]
    failed: list[tuple[Job, Exception]] = []
    with steps(title, done + sum(job.size for job in jobs), unit, done) as bar:
        for one, error in _engine(units, recipe, stage):
            if error is not None:
                failed.append((one.job, error))
                say(f"failed: {one.job.about}: {error}")
            bar.update(one.job.size, **({"failed": len(failed)} if failed else {}))
    if failed:
        lines = "".join(f"\n  {job.about}: {type(error).__name__}: {error}" for job, error in failed)
        message = f"{len(failed)} of {len(jobs)} jobs of {title} failed; the results of the others are kept.{lines}"
        raise JobError(message) from failed[0][1]


def _engine(units: Sequence[Unit], recipe: Recipe, stage: str) -> Iterator[tuple[Unit, Exception | None]]:
    if not units:
        return iter(())
    alone = units[0].folder.in_memory
    if recipe.engine.kind == "ray":
        if alone:
            raise InputError("--runs", "memory://, which other processes do not see", "a URL or path that workers see")
        from .on_ray import done_on_ray

        return done_on_ray(units, recipe.engine, stage)
    processes = 1 if alone or stage in OF_MODELS else min(len(units), processes_of(recipe.sweep.processes))
    return done_here(units) if processes <= 1 else done_in_processes(units, processes)


def shares(count: int, sites: int, recipe: Recipe) -> int:
    """Into how many jobs the work of each site is cut, so that all processes have some until the end."""
    if recipe.engine.kind == "ray":
        # How many can be done at once is for Ray to know: enough for most, of which each reads the layer once.
        return max(1, min(count, PIECES))
    wanted = 2 * processes_of(recipe.sweep.processes) if recipe.sweep.processes != 1 else 1
    return max(1, min(count, -(-wanted // max(1, sites))))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Sums come out differently in the last bit where their parts are computed in another number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
