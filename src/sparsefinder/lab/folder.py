"""The folder of a run: what each stage was made from.

A stage has a key, the hash of everything it was made from. Where a finished stage has the same key it is skipped; where
it has another one, its old results are set aside under the old key, never deleted.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_text

__all__ = ["RunFolder", "check_folder", "key_of"]

STAGES_FOLDER = "stages"
VERSIONED = ("sparsefinder", "torch", "transformers", "tokenizers", "scikit-learn", "numpy")


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
        file = self.path / STAGES_FOLDER / f"{stage}.begun"
        begun = file.read_text(encoding="utf-8").strip() if file.is_file() else None
        if begun is not None and begun != key:
            for name in results:
                old, kept = self.path / name, self.path / f"{name}-{begun}"
                if old.exists() and not kept.exists():
                    old.rename(kept)
                elif old.exists():
                    shutil.rmtree(old)
            (self.path / STAGES_FOLDER / f"{stage}.json").unlink(missing_ok=True)
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
        write_text(self.path / STAGES_FOLDER / f"{stage}.json", json.dumps(stamp, indent=1) + "\n")


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
