"""Work shared among local processes: a list of jobs, and a function that does one and writes its results itself.

Nothing comes back from a job, so that one that fails, or a run that is killed, takes nothing with it that was finished.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import SparsefinderError

__all__ = ["Job", "JobError", "run_jobs", "shares"]


class JobError(SparsefinderError):
    """Some jobs failed; what the others did is there."""


@dataclass(frozen=True)
class Job:
    """What a function is called with, what it is about, and how many pieces of work it is."""

    about: str
    size: int
    arguments: tuple[Any, ...]


def run_jobs(work: Callable[..., None], jobs: Sequence[Job], processes: int | None, title: str) -> None:
    """Do all jobs. What a job gives is the same whatever the number of processes: each has one thread."""
    from tqdm.auto import tqdm

    count = min(len(jobs), processes or len(os.sched_getaffinity(0)))
    failed: list[tuple[Job, BaseException]] = []
    with tqdm(total=sum(job.size for job in jobs), desc=title, disable=None if jobs else True) as bar:
        for job, error in _done_here(work, jobs) if count <= 1 else _done_elsewhere(work, jobs, count):
            bar.update(job.size)
            if error is not None:
                failed.append((job, error))
                bar.write(f"failed: {job.about}: {error}")
    if failed:
        lines = "".join(f"\n  {job.about}: {type(error).__name__}: {error}" for job, error in failed)
        message = f"{len(failed)} of {len(jobs)} jobs of {title} failed; the results of the others are kept.{lines}"
        raise JobError(message) from failed[0][1]


def shares(count: int, sites: int, processes: int | None) -> int:
    """Into how many jobs the work of each site is cut, so that all processes have some until the end."""
    wanted = 2 * (processes or len(os.sched_getaffinity(0))) if processes != 1 else 1
    return max(1, min(count, -(-wanted // max(1, sites))))


Outcome = tuple[Job, Exception | None]


def _done_here(work: Callable[..., None], jobs: Sequence[Job]) -> Iterator[Outcome]:
    for job in jobs:
        try:
            with _one_thread():
                work(*job.arguments)
        except Exception as error:
            yield job, error
        else:
            yield job, None


def _done_elsewhere(work: Callable[..., None], jobs: Sequence[Job], count: int) -> Iterator[Outcome]:
    before = set(multiprocessing.active_children())
    # Not forked: a copy of a process with threads may hang.
    executor = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin)
    try:
        waiting: dict[Future[None], Job] = {executor.submit(_work_alone, work, job.arguments): job for job in jobs}
        for future in as_completed(waiting):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield waiting[future], error
        executor.shutdown()
    except BaseException:
        # Ctrl-C, or whoever reads this has had enough: jobs under way are not waited for.
        started = set(multiprocessing.active_children()) - before
        executor.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.terminate()
        raise


def _begin() -> None:
    """In a new process: go when the one that started it goes, however it goes."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _work_alone(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with _one_thread():
        work(*arguments)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums come out differently in the last bit where their parts are computed in several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
