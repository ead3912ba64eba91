"""Files and folders that appear whole or not at all, and words for a disk that takes no more."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import SparsefinderError

__all__ = ["DiskError", "explaining", "whole_file", "whole_folder", "write_text"]


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
