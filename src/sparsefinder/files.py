"""Files and folders that appear whole or not at all, and words for a disk that takes no more."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .errors import InputError, SparsefinderError, check_type

__all__ = [
    "DiskError", "explaining", "folder_at", "inside", "read_json", "reading", "whole_file", "whole_folder",
    "write_text",
]  # fmt: skip


class DiskError(SparsefinderError):
    """Something could not be written."""


def folder_at(path: str | Path) -> Path:
    """A folder to write to, whether it is there or not."""
    check_type("path", path, (str, Path), "the name of a folder")
    if Path(path).exists() and not Path(path).is_dir():
        raise InputError("path", f"{path}, which is a file", "the name of a folder")
    return Path(path)


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


def read_json(path: str | Path) -> dict[str, Any]:
    """Read what a program wrote as JSON: an object."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise InputError(str(path), f"what is not JSON: {error}", "the file as it was written") from error
    check_type(str(path), found, dict, "the file as it was written")
    return found


def inside(folder: Path, name: object) -> Path:
    """A file of a folder by a name that was read from somewhere: it may not lead out of the folder."""
    if not isinstance(name, str) or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise InputError(f"name of a file in {folder}", repr(name), "one within that folder")
    return folder / name


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """What was written by a program and is not so any more (cut off, changed, of another kind), said in words."""
    try:
        yield
    except SparsefinderError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        RuntimeError,
        SafetensorError,
    ) as error:
        # The system's own have a number; Parquet's that it cannot make sense of a file have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise InputError(str(path), f"what cannot be understood ({reason})", "the file as it was written") from error


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
        raise DiskError(message + "once that is put right, the same command goes on from there.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
