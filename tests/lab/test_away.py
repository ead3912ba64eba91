"""A run that is kept under a URL: what comes out is what a plain folder has, whole, and goes on from any machine."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest

from sparsefinder import InputError
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run

from .test_run import results, tiny_recipe


@pytest.fixture(autouse=True)
def _copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEFINDER_CACHE", str(tmp_path / "copies"))


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_a_run_under_a_url_is_that_of_a_folder(scheme: str, tmp_path: Path) -> None:
    """Also on another machine, which has no copies; and where a result was lost, it is made again."""
    recipe = load_recipe(tiny_recipe("causal-lm", tmp_path))
    plain = run(recipe, tmp_path / "runs", say=lambda line: None)
    url = f"{scheme}://{tmp_path}/away"
    said: list[str] = []
    folder = run(recipe, url, say=said.append)
    assert len([line for line in said if "done in" in line]) == 5
    assert results(folder.path) == results(plain.path)
    there, root = fsspec.url_to_fs(f"{url}/tiny")
    there.rm(there.find(f"{root}/points/recall")[0])
    for name in ("sweep", "report"):
        there.rm(f"{root}/stages/{name}.json")
    shutil.rmtree(tmp_path / "copies")
    said.clear()
    again = run(recipe, url, say=said.append)
    assert [line.endswith("it is done") for line in said] == [True] * 3 + [False] * 4
    assert results(again.path) == results(plain.path)
    shutil.rmtree(tmp_path / "copies")
    assert there.exists(f"{root}/report/index.html")


def test_another_key_sets_results_aside_there_too(tmp_path: Path) -> None:
    url = f"memory://{tmp_path}/aside"
    for seed in (0, 1):
        run(load_recipe(tiny_recipe("masked-lm", tmp_path), [f"seed={seed}"]), url, "train", say=lambda line: None)
    there, root = fsspec.url_to_fs(f"{url}/tiny")
    names = {name[len(root) :].split("/")[1] for name in there.find(root)}
    assert len([name for name in names if name.startswith("teacher-")]) == 1


def test_a_folder_that_was_copied_in_part_is_not_there(tmp_path: Path) -> None:
    """Its list of files comes last, and a copy of another version is copied anew."""
    folder = RunFolder.at(f"memory://{tmp_path}/part")
    (folder / "teacher").mkdir(parents=True)
    for text in ("one", "two"):
        (folder / "teacher/config.json").write_text(text)
        folder.put("teacher")
        other = RunFolder(tmp_path / "other", folder.url)
        other.fetch("teacher")
        assert (other / "teacher/config.json").read_text() == text
    assert folder.present(["teacher", "traces"]) == {"teacher"}
    there, root = fsspec.url_to_fs(folder.url)
    there.rm(f"{root}/teacher/.whole")
    assert folder.present(["teacher"]) == set()


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out"])
def test_names_that_lead_out_of_a_folder_are_refused(name: str, tmp_path: Path) -> None:
    folder = RunFolder.at(f"memory://{tmp_path}/evil")
    there, root = fsspec.url_to_fs(folder.url)
    there.pipe_file(f"{root}/teacher/.whole", json.dumps([name]).encode())
    with pytest.raises(InputError, match="one within that folder"):
        folder.fetch("teacher")
    assert not list(tmp_path.rglob("out"))


def test_places_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--runs: got nowhere://"):
        RunFolder.at("nowhere://bucket/runs")
    with pytest.raises(InputError, match=r"without teacher/config.json"):
        RunFolder.at(f"memory://{tmp_path}/empty").fetch("teacher/config.json")
    recipe = load_recipe(tiny_recipe("masked-lm", tmp_path), ["engine=ray"])
    with pytest.raises(InputError, match="memory://, which other processes do not see"):
        run(recipe, f"memory://{tmp_path}/ray", "trace", say=lambda line: None)
