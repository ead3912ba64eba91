"""A run's folder that is kept elsewhere, under any URL that fsspec knows: s3://…, gs://…, file://…, memory://….

What is read is copied to a folder of this machine first, so that tensors are memory-mapped there as ever; what is made
is copied back. A file or a folder appears there whole or not at all: a folder counts once its list of files is there,
which is written last.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from ..errors import InputError
from ..files import inside, whole_file, whole_folder, write_text

__all__ = ["WHOLE", "Away", "is_url", "local_copy"]

# The list of a folder's files, written when all of them are there.
WHOLE = ".whole"
# Which version of a file was copied last, beside the copies.
SEEN = ".seen"
# So many names are asked for one by one; of more, what is there is listed.
FEW = 4


def is_url(where: str | Path) -> bool:
    """Whether a place is a URL rather than a path."""
    return isinstance(where, str) and "://" in where


def local_copy(url: str) -> Path:
    """The folder of this machine that holds copies of what is at a URL: in $SPARSEFINDER_CACHE, or ~/.cache."""
    root = os.environ.get("SPARSEFINDER_CACHE") or Path.home() / ".cache/sparsefinder"
    name = posixpath.basename(url.rstrip("/"))
    return Path(root) / "runs" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


class Away:
    """What is at a URL, by names relative to it; `here` has the copies."""

    def __init__(self, url: str, here: Path) -> None:
        self.url, self.here = url.rstrip("/"), here
        try:
            # Others write there meanwhile: what was listed before says nothing.
            self._files, self._root = fsspec.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise InputError("--runs", f"{url}: {error}", "a path, or a URL whose fsspec package is here") from error
        self._root = self._root.rstrip("/")

    def names(self, under: str) -> set[str]:
        """The files below a name."""
        found = self._files.find(self._there(under))
        start = len(self._root) + 1
        return {name[start:] for name in found}

    def present(self, names: Iterable[str]) -> set[str]:
        """Those of some names that are there as a file or as a whole folder."""
        names = set(names)
        if len(names) <= FEW:
            return {name for name in names if self._is_there(name)}
        parents = {posixpath.dirname(name) for name in names}
        listed = set().union(*(self.names(parent) for parent in parents))
        return {name for name in names if name in listed or f"{name}/{WHOLE}" in listed}

    def _is_there(self, name: str) -> bool:
        return self._files.exists(self._there(f"{name}/{WHOLE}")) or self._files.isfile(self._there(name))

    def get(self, name: str) -> None:
        """Copy a file or a folder here, unless the copy is of the same version."""
        with self._locked(name):
            folder = self._files.exists(self._there(f"{name}/{WHOLE}"))
            version = self._version(f"{name}/{WHOLE}" if folder else name)
            seen, copy = self.here / SEEN / name / "version", self.here / name
            if copy.exists() and seen.is_file() and seen.read_text(encoding="utf-8") == version:
                return
            if folder:
                files = json.loads(self._files.cat_file(self._there(f"{name}/{WHOLE}")))
                with whole_folder(copy) as target:
                    for file in files:
                        inside(target, file).parent.mkdir(parents=True, exist_ok=True)
                        self._files.get_file(self._there(f"{name}/{file}"), str(target / file))
            else:
                with whole_file(copy) as target:
                    self._files.get_file(self._there(name), str(target))
            write_text(seen, version)

    def put(self, name: str) -> None:
        """Copy a file or a folder from here; nothing where there is none."""
        path = self.here / name
        if path.is_file():
            self._send(path, name)
        elif path.is_dir():
            files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
            for file in files:
                self._send(path / file, f"{name}/{file}")
            self._whole(lambda there: self._files.pipe_file(there, json.dumps(files).encode()), f"{name}/{WHOLE}")

    def move(self, old: str, new: str) -> None:
        """Give a file or a folder another name there."""
        if self._files.exists(self._there(old)):
            self._files.makedirs(posixpath.dirname(self._there(new)), exist_ok=True)
            self._files.mv(self._there(old), self._there(new), recursive=True)

    def remove(self, name: str) -> None:
        """Remove a file or a folder there, if it is there."""
        if self._files.exists(self._there(name)):
            self._files.rm(self._there(name), recursive=True)

    def _send(self, path: Path, name: str) -> None:
        self._whole(lambda there: self._files.put_file(str(path), there), name)

    def _whole(self, write: Callable[[str], Any], name: str) -> None:
        """Stores of objects show what is written once it is whole; a file system shows it at once, so it is renamed."""
        there = self._there(name)
        if "file" not in self._files.protocol:
            write(there)
            return
        self._files.makedirs(posixpath.dirname(there), exist_ok=True)
        part = f"{there}.{uuid.uuid4().hex}"
        try:
            write(part)
            os.replace(part, there)
        finally:
            Path(part).unlink(missing_ok=True)

    def _version(self, name: str) -> str:
        try:
            return self._files.ukey(self._there(name))
        except FileNotFoundError as error:
            raise InputError("run", f"{self.url} without {name}", "all that its stages have written") from error

    def _there(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Several processes of a machine share its copies."""
        file = self.here / SEEN / name / "lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
