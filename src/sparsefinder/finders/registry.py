"""Methods by name: those that come with Sparsefinder, those that are registered, and those of installed packages.

A package that has a method of its own names its class in the entry-point group `sparsefinder.finders`:

    [project.entry-points."sparsefinder.finders"]
    mine = "my_package.mine:Mine"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TypeVar

from ..errors import InputError, check_type
from ..families import FAMILIES
from .about import About
from .base import Finder, roles

__all__ = ["finder", "finder_class", "methods", "parameters_of", "register"]

Kind = TypeVar("Kind", bound=type[Finder])
GROUP = "sparsefinder.finders"

_kinds: dict[str, type[Finder]] = {}


def register(kind: Kind) -> Kind:
    """Make a method known by its name, in recipes, on the command line and when finders are loaded.

    >>> @register
    ... @dataclass(frozen=True)
    ... class Diagonal(Finder):
    ...     about = About("diagonal", "diagonal", family="rival")
    ...     def find(self, q, k, grid):
    ...         return Graph.band(0, 0, grid)
    """
    about = getattr(kind, "about", None)
    if not (isinstance(kind, type) and issubclass(kind, Finder) and isinstance(about, About)):
        raise InputError("kind", kind, "a subclass of Finder with `about = About(name, label, family)`")
    known = _kinds.setdefault(about.name, kind)
    # The same class again, as when a notebook's cell is run twice, takes the place of the old one.
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InputError("name", f"{about.name!r}, which is {known.__module__}.{known.__qualname__}", "another name")
    _kinds[about.name] = kind
    return kind


def methods() -> Mapping[str, type[Finder]]:
    """All methods by name: those of the paper, ours, those of others, and what they are compared with."""
    _load_installed()
    families = list(FAMILIES)
    # Within a family as they were registered.
    order = sorted(_kinds, key=lambda name: families.index(_kinds[name].about.family))
    return MappingProxyType({name: _kinds[name] for name in order})


def finder(name: str, **parameters: object) -> Finder:
    """A finder by its name.

    >>> finder("window", size=11) | finder("global", count=1)
    """
    kind = finder_class(name)
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        takes = f"takes {', '.join(known)}" if known else "takes no parameters"
        raise InputError(f"parameters of {name}", ", ".join(unknown), f"only what it takes: {name} {takes}")
    missing = [each.name for each in fields(kind) if each.default is MISSING and each.name not in parameters]
    if missing:
        raise InputError(f"parameters of {name}", ", ".join(parameters) or "none", f"{', '.join(missing)} among them")
    return kind(**parameters)


def finder_class(name: str) -> type[Finder]:
    """The class of a method by its name."""
    known = methods()
    check_type("finder", name, str, "the name of a method: finder('window', size=11), for Window(11)")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError("finder", repr(name) + hint, f"one of {', '.join(sorted(known))}")
    return known[name]


def parameters_of(kind: type[Finder]) -> list[str]:
    """The parameters that a person chooses: neither learned nor of the run."""
    return [name for name, role in roles(kind) if role not in ("learned", "run")]


@cache
def _load_installed() -> None:
    for each in entry_points(group=GROUP):
        try:
            kind = each.load()
        except Exception as error:
            got = f"{each.value}, which fails: {error}"
            raise InputError(f"entry point {each.name}", got, "a class that can be imported") from error
        register(kind)
