"""A run on a real Ray cluster of several nodes: the same results to the bit, whatever is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparsefinder.lab.engines import Job, JobError, run_jobs
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run

from ..lab.sweep.runs import recipe as small
from ..lab.test_run import results, tiny_recipe
from .cluster import add_node, cluster, s3

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in {**found, "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, value)
        patch.setenv("SPARSEFINDER_CACHE", str(tmp_path_factory.mktemp("driver")))
        yield found


@pytest.fixture(scope="module")
def nodes(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with cluster(tmp_path_factory.mktemp("nodes")) as made:
        yield made


def _command(recipe: Path, made: Any, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "sparsefinder", "sweep", str(recipe), "--engine", "ray", "--address", made.address, *more,
    ]  # fmt: skip


def test_without_a_common_disk_the_driver_killed_and_started_again(nodes: Any, tmp_path: Path) -> None:
    """Artifacts go through an S3 server; the driver is killed while it traces, and another machine goes on."""
    recipe = tiny_recipe("masked-lm", tmp_path)
    plain = run(load_recipe(recipe), tmp_path / "runs", "sweep", say=lambda line: None)
    command = _command(recipe, nodes, "--runs", "s3://bucket/runs")
    first = os.environ | {"SPARSEFINDER_CACHE": str(tmp_path / "first")}
    with subprocess.Popen(command, env=first, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stderr is not None
        for line in driver.stderr:
            if line.startswith("fit: begins"):
                driver.send_signal(signal.SIGKILL)
                break
    second = os.environ | {"SPARSEFINDER_CACHE": str(tmp_path / "second")}
    done = subprocess.run(command, env=second, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "train: nothing to do" in done.stderr
    assert "trace: nothing to do" in done.stderr
    there = RunFolder.at("s3://bucket/runs/tiny")
    there.fetch_under("")
    assert results(there.path) == results(plain.path)


def test_on_a_shared_folder(nodes: Any, tmp_path: Path) -> None:
    recipe = tiny_recipe("causal-lm", tmp_path)
    for name, more in (("local", []), ("ray", ["engine.kind=ray", f"engine.address={nodes.address}"])):
        run(load_recipe(recipe, more), tmp_path / name, "sweep", say=lambda line: None)
    assert results(tmp_path / "ray/tiny") == results(tmp_path / "local/tiny")


def _write(folder: RunFolder, name: str, how: str) -> None:
    """A unit that takes a while, or fails, or kills its worker the first time."""
    if how == "fail":
        raise ValueError("out of luck")
    killed = folder / f"{name}.killed"
    if how == "die" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "wait":
        (folder / f"{name}.begun").touch()
        for _ in range(600):
            if (folder / "go").exists():
                break
            time.sleep(0.1)
    (folder / name).write_text(how)


def _do(made: Any, path: Path, *hows: str) -> None:
    jobs = [Job(f"unit {place}", 1, (str(place), how)) for place, how in enumerate(hows)]
    asked = small(["window"], engine={"kind": "ray", "address": made.address})
    run_jobs(_write, RunFolder(path), jobs, asked, "sweep", "writing")


def test_a_worker_killed_and_a_unit_that_raises(nodes: Any, tmp_path: Path) -> None:
    """What a lost worker did is done again; what raises is named, and the rest is finished."""
    with pytest.raises(JobError, match=r"1 of 4 jobs of writing failed.*\n  unit 2: .*out of luck"):
        _do(nodes, tmp_path, "work", "die", "fail", "work")
    assert {name: (tmp_path / name).read_text() for name in "013"} == {"0": "work", "1": "die", "3": "work"}


def test_a_node_removed_while_it_works(nodes: Any, tmp_path: Path) -> None:
    """Its units are done again on others."""
    import threading

    extra = add_node(nodes, tmp_path / "extra")
    nodes.wait_for_nodes()

    def remove() -> None:
        while len(list(tmp_path.glob("*.begun"))) < 3:
            time.sleep(0.1)
        nodes.remove_node(extra, allow_graceful=False)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=remove)
    thread.start()
    _do(nodes, tmp_path, *["wait"] * 6)
    thread.join()
    assert sorted(file.name for file in tmp_path.glob("?")) == list("012345")


def test_what_no_node_has_is_said(nodes: Any, tmp_path: Path) -> None:
    from sparsefinder import InputError

    engine = {"kind": "ray", "address": nodes.address, "sweep": {"cpus": 64}}
    jobs = [Job("unit", 1, ("a", "work"))]
    with pytest.raises(InputError, match=r"engine.sweep: got cpus 64 .*at most 1 CPUs"):
        run_jobs(_write, RunFolder(tmp_path), jobs, small(["window"], engine=engine), "sweep", "writing")
