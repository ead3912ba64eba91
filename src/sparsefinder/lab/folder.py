"""The folder of a run: what each stage was made from, and where it is kept.

A run is kept in a folder of this machine, or under a URL (`away.py`) of which this machine has copies; `fetch` and
`put` are for the latter, and do nothing in a plain folder.

A stage has a key, the hash of everything it was made from. Where a finished stage has the same key it is skipped; where
it has another one, its old results are set aside under the old key, never deleted.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_text
from .away import WHOLE, Away, is_url, local_copy
from .machine import machine, peak_memory

__all__ = ["RunFolder", "check_folder", "key_of"]

STAGES_FOLDER = "stages"
VERSIONED = ("sparsefinder", "torch", "transformers", "tokenizers", "scikit-learn", "numpy")


def key_of(*parts: Any) -> str:
    """A short hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class RunFolder:
    """The folder of one run.

    >>> RunFolder("runs/demo-mlm") / "teacher"
    >>> RunFolder.at("s3://bucket/runs/demo-mlm").fetch("teacher")
    """

    def __init__(self, path: str | Path, url: str | None = None) -> None:
        self.path, self.url = Path(path), url
        self._away = None if url is None else Away(url, self.path)

    @classmethod
    def at(cls, where: str | Path) -> RunFolder:
        """The folder at a path, or this machine's copies of what is at a URL."""
        if not is_url(where):
            return cls(where)
        where = str(where).rstrip("/")
        return cls(local_copy(where), where)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another machine has copies of its own, and another process may be in another folder.
        return RunFolder.at, (self.url or self.path.absolute(),)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def in_memory(self) -> bool:
        """Whether only this process sees it."""
        return self.url is not None and self.url.startswith("memory:")

    def name_of(self, path: Path) -> str:
        """A path within the folder as `fetch`, `put` and jobs take it."""
        return path.relative_to(self.path).as_posix()

    def present(self, names: Iterable[str]) -> set[str]:
        """Those of some files and folders that are there."""
        if self._away is None:
            return {name for name in names if (self.path / name).exists()}
        return self._away.present(names)

    def fetch(self, *names: str) -> None:
        """Have copies of files and folders here, as they are now."""
        if self._away is not None:
            for name in names:
                self._away.get(name)

    def fetch_under(self, name: str) -> None:
        """The same for all files below a name."""
        if self._away is not None:
            self.fetch(*sorted(each for each in self._away.names(name) if not each.endswith(f"/{WHOLE}")))

    def put(self, *names: str) -> None:
        """Copy files and folders, as they are here, to where the run is kept."""
        if self._away is not None:
            for name in names:
                self._away.put(name)

    def move(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        if (self.path / old).exists():
            (self.path / new).parent.mkdir(parents=True, exist_ok=True)
            (self.path / old).replace(self.path / new)
        if self._away is not None:
            self._away.move(old, new)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        if (self.path / name).is_dir():
            shutil.rmtree(self.path / name)
        (self.path / name).unlink(missing_ok=True)
        if self._away is not None:
            self._away.remove(name)

    def stamp(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage said of itself; None if it is not finished."""
        file = self.path / STAGES_FOLDER / f"{stage}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None

    def finished(self, stage: str, key: str) -> bool:
        """Whether the stage was finished with this key."""
        stamp = self.stamp(stage)
        return stamp is not None and stamp["key"] == key

    def begin(self, stage: str, key: str, *results: str) -> None:
        """Before a stage's work: set results of another key aside, and say whose the new ones will be.

        What a killed stage of the same key left stays where it is, for it to go on from.
        """
        begun = self._begun(stage)
        if begun is not None and begun != key:
            for name in results:
                if self.present([f"{name}-{begun}"]) or (self.path / f"{name}-{begun}").exists():
                    self.remove(name)
                else:
                    self.move(name, f"{name}-{begun}")
            self.remove(f"{STAGES_FOLDER}/{stage}.json")
        self._write(f"{STAGES_FOLDER}/{stage}.begun", key + "\n")

    def follow(self, stage: str, *results: str) -> None:
        """What other machines did since: where the stage is of another key by now, copies of its results go."""
        before = self._begun(stage)
        self.fetch(*self.present([f"{STAGES_FOLDER}/{stage}.{end}" for end in ("begun", "json")]))
        if before not in (None, self._begun(stage)):
            for name in results:
                shutil.rmtree(self.path / name, ignore_errors=True)

    def finish(self, stage: str, key: str, started: float, **details: Any) -> None:
        """After a stage's work: with this, it is finished."""
        stamp = {
            "key": key,
            "seconds": round(time.monotonic() - started, 1),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "machine": machine(),
            "peak_memory": peak_memory(),
            **details,
        }
        self._write(f"{STAGES_FOLDER}/{stage}.json", json.dumps(stamp, indent=1) + "\n")

    def _begun(self, stage: str) -> str | None:
        file = self.path / STAGES_FOLDER / f"{stage}.begun"
        return file.read_text(encoding="utf-8").strip() if file.is_file() else None

    def _write(self, name: str, text: str) -> None:
        write_text(self.path / name, text)
        self.put(name)


def versions() -> dict[str, str]:
    """The versions of what results depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def check_folder(path: str | Path) -> RunFolder:
    """The folder of a run that was begun."""
    folder = RunFolder(path)
    if not (folder / "recipe.yaml").is_file():
        raise InputError("RUN", path, "the folder of a run, with its recipe.yaml (`sparsefinder run RECIPE` makes one)")
    return folder
