"""What comes with an extra: `pip install "sparsefinder[hf]"` for Hugging Face models, `[lab]` for runs and reports too.

The base is torch, numpy, jaxtyping and safetensors. Whoever needs more asks here, and where it is not there the error
names the extra that brings it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import SparsefinderError

__all__ = ["MissingExtraError", "needed", "present", "require", "tqdm"]


class MissingExtraError(SparsefinderError, ImportError):
    """A package that is not installed, and the extra of Sparsefinder that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f'this needs {package}, which is not installed: pip install "sparsefinder[{extra}]"')
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra)


def present(package: str) -> bool:
    """Whether a package is installed. It is not imported."""
    return find_spec(package) is not None


def require(extra: str, *packages: str) -> None:
    """Raise if one of the packages that an extra brings is missing."""
    for package in packages:
        if not present(package):
            raise MissingExtraError(package, extra)


def needed(module: str, extra: str) -> Any:
    """A module that comes with an extra, imported now.

    >>> needed("sklearn.cluster", "hf").KMeans
    """
    require(extra, module.partition(".")[0])
    return import_module(module)


def tqdm(steps: Iterable[Any] | None = None, **options: Any) -> Any:
    """A bar of tqdm, which comes with every extra; without it the same steps, and nothing to look at."""
    if present("tqdm"):
        return import_module("tqdm.auto").tqdm(steps, **options)
    return _NoBar(steps)


class _NoBar:
    """What is used of a bar where there is none."""

    def __init__(self, steps: Iterable[Any] | None) -> None:
        self.steps = () if steps is None else steps

    def __iter__(self) -> Iterator[Any]:
        return iter(self.steps)

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        pass

    def set_postfix(self, **values: object) -> None:
        pass
