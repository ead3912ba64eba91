"""Work shared among local processes: a list of jobs, and a function that does one and writes its results itself.

Nothing comes back from a job, so that one that fails, or a run that is killed, takes nothing with it that was finished.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import SparsefinderError
from ..progress import say, steps

__all__ = ["Job", "JobError", "processes_of", "run_jobs", "shares"]


class JobError(SparsefinderError):
    """Some jobs failed; what the others did is there."""


@dataclass(frozen=True)
class Job:
    """What a function is called with, what it is about, and how many pieces of work it is."""

    about: str
    size: int
    arguments: tuple[Any, ...]


def run_jobs(
    work: Callable[..., None],
    jobs: Sequence[Job],
    processes: int | None,
    title: str,
    unit: str = "piece",
    done: int = 0,
) -> None:
    """Do all jobs. What a job gives is the same whatever the number of processes: each has one thread.

    title, unit, done: what is shown meanwhile: what is done, what is counted, and how many were done before.
    """
    count = min(len(jobs), processes_of(processes))
    failed: list[tuple[Job, BaseException]] = []
    with steps(title, done + sum(job.size for job in jobs), unit, done) as bar:
        for job, error in _done_here(work, jobs) if count <= 1 else _done_elsewhere(work, jobs, count):
            bar.update(job.size)
            if error is not None:
                failed.append((job, error))
                say(f"failed: {job.about}: {error}")
    if failed:
        lines = "".join(f"\n  {job.about}: {type(error).__name__}: {error}" for job, error in failed)
        message = f"{len(failed)} of {len(jobs)} jobs of {title} failed; the results of the others are kept.{lines}"
        raise JobError(message) from failed[0][1]


def processes_of(asked: int | None) -> int:
    """How many processes share the work: as many as asked for, or as there are cores."""
    return asked or len(os.sched_getaffinity(0))


def shares(count: int, sites: int, processes: int | None) -> int:
    """Into how many jobs the work of each site is cut, so that all processes have some until the end."""
    wanted = 2 * processes_of(processes) if processes != 1 else 1
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
        with _ctrl_c_for_us_alone():
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


@contextmanager
def _ctrl_c_for_us_alone() -> Iterator[None]:
    """Processes that are started within this block leave Ctrl-C to this one, which ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
