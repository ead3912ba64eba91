"""The folder of a run: files appear whole or not at all, and results of another key are kept."""

import errno
import os
import re
import stat
import time
from pathlib import Path

import pytest

from sparsefinder import InputError
from sparsefinder.files import DiskError, whole_file, whole_folder, write_text
from sparsefinder.lab.folder import RunFolder, check_folder, key_of


def _write_half(file: Path) -> None:
    file.write_text("half")
    raise RuntimeError("stopped in the middle")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with pytest.raises(RuntimeError), whole_file(target) as file:
        _write_half(file)
    assert os.listdir(target.parent) == []
    with whole_file(target) as file:
        file.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    with pytest.raises(RuntimeError), whole_file(target) as file:
        _write_half(file)
    assert target.read_text() == "whole"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for content in ("one", "two"):
        with whole_folder(target) as folder:
            (folder / "file").write_text(content)
        assert (target / "file").read_text() == content
        with pytest.raises(RuntimeError), whole_folder(target) as folder:
            _write_half(folder / "other")
        assert [one.name for one in target.iterdir()] == ["file"]
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_disk_is_said_in_words_and_leaves_what_there_was(tmp_path: Path, code: int) -> None:
    write_text(tmp_path / "earlier", "kept")
    for whole in (whole_file, whole_folder):
        with pytest.raises(DiskError, match=f"late.*{os.strerror(code)}.*intact"), whole(tmp_path / "late"):
            raise OSError(code, os.strerror(code))
    assert os.listdir(tmp_path) == ["earlier"]
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "late"):
        raise FileNotFoundError(errno.ENOENT, "something else")


def test_a_really_full_disk(tmp_path: Path) -> None:
    # /dev/full takes nothing, as a full disk does.
    with pytest.raises(DiskError, match="No space left"), whole_file(tmp_path / "late"), open("/dev/full", "w") as full:
        full.write("x" * 100_000)
    assert os.listdir(tmp_path) == []


def test_stages_are_finished_with_a_key(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not folder.finished("train", "a")
    folder.begin("train", "a", "teacher")
    write_text(folder / "teacher/weights", "of a")
    # Killed here: it is not finished, and what it left stays for it to go on from.
    assert not folder.finished("train", "a")
    folder.begin("train", "a", "teacher")
    assert (folder / "teacher/weights").read_text() == "of a"
    folder.finish("train", "a", time.monotonic(), loss=1.5)
    assert folder.finished("train", "a")
    stamp = folder.stamp("train")
    assert stamp is not None
    assert stamp["loss"] == 1.5
    assert "torch" in stamp["versions"]
    assert 1e7 < stamp["peak_memory"] < 1e12
    assert re.search(r", \d+ cores$", stamp["machine"])


def test_results_of_another_key_are_set_aside(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for key in ("a", "b"):
        folder.begin("train", key, "teacher")
        assert not (folder / "teacher").exists()
        write_text(folder / "teacher/weights", f"of {key}")
        folder.finish("train", key, time.monotonic())
    assert (folder / "teacher-a/weights").read_text() == "of a"
    assert (folder / "teacher/weights").read_text() == "of b"
    assert folder.finished("train", "b")
    assert not folder.finished("train", "a")


def test_keys_depend_on_values_and_not_on_their_order() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
    assert key_of("a", "b") != key_of("ab")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="RUN"):
        check_folder(tmp_path)
