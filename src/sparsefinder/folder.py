"""The folder of a run: what a stage was made from, and files that appear whole or not at all.

A stage has a key, the hash of everything it was made from. Where a finished stage has the same key it is skipped; where
it has another one, its old results are set aside under the old key, never deleted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .errors import InputError, SparsefinderError

__all__ = ["DiskError", "RunFolder", "check_folder", "explaining", "key_of", "whole_file", "whole_folder", "write_text"]

STAGES = "stages"
VERSIONED = ("sparsefinder", "torch", "transformers", "tokenizers", "scikit-learn", "numpy")


class DiskError(SparsefinderError):
    """Something could not be written."""


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to: takes its name when the block ends well, and disappears when it does not."""
    target = Path(path)
    with explaining(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        os.close(handle)
    try:
        with explaining(target):
            yield Path(name)
            # Everybody may read it, as if it had been opened by name.
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder to write to: takes its name when the block ends well, and disappears when it does not."""
    target = Path(path)
    with explaining(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with explaining(target):
            yield folder
            os.chmod(folder, 0o777 & ~_umask())
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with whole_file(path) as file:
        file.write_text(text, encoding="utf-8")


def key_of(*parts: Any) -> str:
    """A short hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def stamp(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage said of itself; None if it is not finished."""
        file = self.path / STAGES / f"{stage}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None

    def finished(self, stage: str, key: str) -> bool:
        """Whether the stage was finished with this key."""
        stamp = self.stamp(stage)
        return stamp is not None and stamp["key"] == key

    def begin(self, stage: str, key: str, *results: str) -> None:
        """Before a stage's work: set results of another key aside, and say whose the new ones will be.

        What a killed stage of the same key left stays where it is, for it to go on from.
        """
        file = self.path / STAGES / f"{stage}.begun"
        begun = file.read_text(encoding="utf-8").strip() if file.is_file() else None
        if begun is not None and begun != key:
            for name in results:
                old, kept = self.path / name, self.path / f"{name}-{begun}"
                if old.exists() and not kept.exists():
                    old.rename(kept)
                elif old.exists():
                    shutil.rmtree(old)
            (self.path / STAGES / f"{stage}.json").unlink(missing_ok=True)
        write_text(file, key + "\n")

    def finish(self, stage: str, key: str, started: float, **details: Any) -> None:
        """After a stage's work: with this, it is finished."""
        stamp = {
            "key": key,
            "seconds": round(time.monotonic() - started, 1),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            **details,
        }
        write_text(self.path / STAGES / f"{stage}.json", json.dumps(stamp, indent=1) + "\n")


def versions() -> dict[str, str]:
    """The versions of what results depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def explaining(target: Path) -> Iterator[None]:
    """A full disk or a folder one may not write to, said in words."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        reason = os.strerror(error.errno)
        message = f"{target} could not be written: {reason}. What was finished before is intact; "
        raise DiskError(message + "when there is room, the same command goes on from there.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_folder(path: str | Path) -> RunFolder:
    """The folder of a run that was begun."""
    folder = RunFolder(path)
    if not (folder / "recipe.yaml").is_file():
        raise InputError("RUN", path, "the folder of a run, with its recipe.yaml (`sparsefinder run RECIPE` makes one)")
    return folder
