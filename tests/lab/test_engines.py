"""Jobs on several processes: one that fails is told of, and takes no other work with it."""

from pathlib import Path
from typing import Any

import pytest

from sparsefinder.lab.engines import Job, JobError, run_jobs, shares
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe

from .sweep.runs import recipe


def write(folder: RunFolder, name: str, how: str) -> None:
    if how == "fail":
        raise ValueError("out of luck")
    (folder / name).write_text(how)


def jobs(*hows: str) -> list[Job]:
    return [Job(f"job {place}", 1, (str(place), how), writes=(str(place),)) for place, how in enumerate(hows)]


def processes(count: int, **changed: Any) -> Recipe:
    return recipe(["window"], processes=count, **changed)


def test_the_others_go_on_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"1 of 3 jobs of writing failed.*\n  job 1: ValueError: out of luck"):
        run_jobs(write, RunFolder(tmp_path), jobs("work", "fail", "work"), processes(2), "sweep", "writing")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "2"]


def test_work_is_cut_so_that_every_process_has_some() -> None:
    assert shares(64, sites=12, recipe=processes(2)) == 1
    assert shares(64, sites=1, recipe=processes(2)) == 4
    assert shares(3, sites=1, recipe=processes(8)) == 3
    assert shares(64, sites=1, recipe=processes(1)) == 1
    assert shares(64, sites=12, recipe=processes(1, engine="ray")) == 16
