"""The Ray engine: units of work as tasks of a Ray cluster.

Ray does the scheduling: a task whose worker or node is lost is done again elsewhere, which is harmless, as what a unit
writes appears whole and is the same again. A unit that raises is not done again; it is told of by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir, nullcontext
from typing import Any, TypeVar

from ...errors import InputError, SparsefinderError
from ...extras import needed
from ..recipe import Engine
from .local import Doing

__all__ = ["done_on_ray"]

# How often a task is done again whose worker or node was lost.
RETRIES = 5
# Tasks that are handed to Ray for each that can run at once: enough that no worker waits, few enough that what they are
# called with does not fill the driver's memory.
AHEAD = 4

One = TypeVar("One", bound=Any)


def done_on_ray(units: Sequence[One], engine: Engine, stage: str) -> Iterator[tuple[One, Exception | None]]:
    """Each unit with the error that it ended with, if it did, as they come to their end."""
    ray, needs = needed("ray", "ray"), getattr(engine, stage)
    cpus = max(needs.cpus or 1, units[0].threads)
    _connect(ray, engine.address)
    _check_room(ray, cpus, needs.gpus, stage)
    options = {"num_cpus": cpus, "num_gpus": needs.gpus, "max_retries": RETRIES, "retry_exceptions": False}
    task, left = ray.remote(**options)(_do), iter(units)
    waiting: dict[Any, One] = {}
    try:
        while True:
            at_once = ray.cluster_resources().get("CPU", 1) // cpus
            while len(waiting) < AHEAD * max(1, at_once) and (unit := next(left, None)) is not None:
                waiting[task.remote(unit, os.getcwd())] = unit
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=10)
            for one in ready:
                unit = waiting.pop(one)
                try:
                    error = ray.get(one)
                except ray.exceptions.RayError as lost:
                    error = SparsefinderError(f"Ray gave it up after {RETRIES} more tries: {lost}")
                yield unit, error
    finally:
        # Ctrl-C, or whoever reads this has had enough: tasks under way are not waited for.
        for one in waiting:
            ray.cancel(one)


def _do(unit: Doing, folder: str) -> Exception | None:
    """In a worker. What is raised is returned: Ray would wrap it in a traceback."""
    try:
        # Relative paths mean what they mean to the driver, where that folder is there too.
        with chdir(folder) if os.path.isdir(folder) else nullcontext():
            unit.do()
    except Exception as error:
        return error if isinstance(error, SparsefinderError) else SparsefinderError(f"{type(error).__name__}: {error}")
    return None


def _connect(ray: Any, address: str | None) -> None:
    """To the cluster at an address, or to one of this machine alone; until the process ends, or somebody disconnects.

    What is connected already is left as it is: workers of a new connection start anew, which takes them seconds.
    """
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
    except (ConnectionError, ValueError, RuntimeError) as error:
        want = "that of a Ray cluster: auto, HOST:6379 or ray://HOST:10001; none starts one on this machine"
        raise InputError("engine.address", f"{address}: {error}", want) from error


def _check_room(ray: Any, cpus: float, gpus: float, stage: str) -> None:
    """Ray would wait without end for a node that has as much."""
    most = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(one.get("CPU", 0) >= cpus and one.get("GPU", 0) >= gpus for one in most):
        has = max((int(one.get("CPU", 0)) for one in most), default=0)
        got = f"cpus {cpus} and gpus {gpus:g}, and no node of the cluster has both (at most {has} CPUs)"
        raise InputError(f"engine.{stage}", got, f"what a node has, such as cpus {max(1, has)}")
