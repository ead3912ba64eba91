"""Jobs on several processes: one that fails is told of, and takes no other work with it."""

from pathlib import Path

import pytest

from sparsefinder.lab.sweep.jobs import Job, JobError, run_jobs, shares


def _write(path: Path, how: str) -> None:
    if how == "fail":
        raise ValueError("out of luck")
    path.write_text(how)


def _jobs(folder: Path, *hows: str) -> list[Job]:
    return [Job(f"job {place}", 1, (folder / str(place), how)) for place, how in enumerate(hows)]


def test_the_others_go_on_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"1 of 3 jobs of writing failed.*\n  job 1: ValueError: out of luck"):
        run_jobs(_write, _jobs(tmp_path, "work", "fail", "work"), 2, "writing")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "2"]


def test_work_is_cut_so_that_every_process_has_some() -> None:
    assert shares(64, sites=12, processes=2) == 1
    assert shares(64, sites=1, processes=2) == 4
    assert shares(3, sites=1, processes=8) == 3
    assert shares(64, sites=1, processes=1) == 1
