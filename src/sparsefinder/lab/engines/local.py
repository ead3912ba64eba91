"""The local engine: units of work in this process, or shared among processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Protocol, TypeVar

__all__ = ["done_here", "done_in_processes", "processes_of"]


class Doing(Protocol):
    """What is handed out."""

    def do(self) -> None:
        """Do it; its results are written by itself."""


One = TypeVar("One", bound=Doing)


def processes_of(asked: int | None) -> int:
    """How many processes share the work: as many as asked for, or as there are cores."""
    return asked or len(os.sched_getaffinity(0))


def done_here(units: Sequence[One]) -> Iterator[tuple[One, Exception | None]]:
    """One after the other, each with the error that it ended with, if it did."""
    for unit in units:
        try:
            unit.do()
        except Exception as error:
            yield unit, error
        else:
            yield unit, None


def done_in_processes(units: Sequence[One], count: int) -> Iterator[tuple[One, Exception | None]]:
    """The same on so many processes, as they come to their end."""
    before = set(multiprocessing.active_children())
    # Not forked: a copy of a process with threads may hang.
    executor = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin)
    try:
        with _ctrl_c_for_us_alone():
            waiting: dict[Future[None], One] = {executor.submit(_do, unit): unit for unit in units}
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


def _do(unit: Doing) -> None:
    unit.do()
