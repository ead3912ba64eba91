"""The methods and what they take, as a list for people.

Those that come with Sparsefinder are read from their files and not imported: that would bring torch, which takes longer
than all else that the list needs.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..families import FAMILIES, Family, first_line

__all__ = ["Listed", "listed", "read", "words"]

FINDERS = Path(__file__).parents[1] / "finders"


@dataclass(frozen=True)
class Listed:
    """A method: its name, whose it is, its parameters, those of them that are dials, and what it does."""

    name: str
    family: Family
    parameters: tuple[str, ...]
    dials: tuple[str, ...]
    says: str


def listed() -> list[Listed]:
    """All methods, also those of installed packages, family by family."""
    found = _imported() if entry_points(group="sparsefinder.finders") else list(read())
    return sorted(found, key=lambda one: list(FAMILIES).index(one.family))


def words(methods: list[Listed], width: int) -> Iterator[str]:
    """The list, line by line."""
    wide = 2 + max(len(one.name) for one in methods)
    before = None
    for one in methods:
        if one.family != before:
            yield from ([""] if before else []) + [f"{FAMILIES[one.family][0]}:"]
        before = one.family
        takes = ", ".join(f"{name}*" if name in one.dials else name for name in one.parameters)
        yield f"  {one.name:{wide}}{takes or 'no parameters'}"
        yield from textwrap.wrap(one.says, width, initial_indent=" " * (2 + wide), subsequent_indent=" " * (2 + wide))
    yield from ["", "* a dial: recall or sparsity may be given instead, in recipes and in Python."]


def _imported() -> list[Listed]:
    from ..describing import does
    from ..finders import methods
    from ..finders.registry import parameters_of

    return [
        Listed(
            name, kind.about.family, tuple(parameters_of(kind)), tuple(dial.field for dial in kind.about.dials),
            does(name),
        )
        for name, kind in methods().items()
    ]  # fmt: skip


def read() -> Iterator[Listed]:
    """What the files say, in the order in which the package has them."""
    for file in ast.parse((FINDERS / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(file, ast.ImportFrom):
            yield from _in((FINDERS / f"{file.module}.py").read_text(encoding="utf-8"))


def _in(text: str) -> Iterator[Listed]:
    """The methods of one file: its registered classes."""
    body = ast.parse(text).body
    for kind in body:
        if isinstance(kind, ast.ClassDef) and any(getattr(one, "id", "") == "register" for one in kind.decorator_list):
            about = _assigned(kind.body)["about"]
            name, _, family = (ast.literal_eval(one) for one in about.args[:3])
            (dials,) = [one.value.elts for one in about.keywords if one.arg == "dials"] or [[]]
            yield Listed(
                name, family,
                _parameters(kind, body),
                tuple(ast.literal_eval(_constant(one, body).args[0]) for one in dials),
                first_line(ast.get_docstring(kind)),
            )  # fmt: skip


def _constant(value: Any, body: list[ast.stmt]) -> Any:
    """What a name is set to in a file, or in that which it comes from; anything else is itself."""
    name = getattr(value, "id", "")
    for one in body:
        if isinstance(one, ast.ImportFrom) and one.level == 1 and name in {each.name for each in one.names}:
            return _constant(value, ast.parse((FINDERS / f"{one.module}.py").read_text(encoding="utf-8")).body)
    return _assigned(body).get(name, value)


def _parameters(kind: ast.ClassDef, body: list[ast.stmt]) -> tuple[str, ...]:
    """The parameters of a class in a file: those of the classes that it is made of first."""
    bases = {getattr(base, "id", "") for base in kind.bases}
    found: list[str] = []
    for one in body:
        if isinstance(one, ast.ImportFrom) and one.level == 1 and (taken := {name.name for name in one.names} & bases):
            there = ast.parse((FINDERS / f"{one.module}.py").read_text(encoding="utf-8")).body
            for other in there:
                found += _parameters(other, there) if isinstance(other, ast.ClassDef) and other.name in taken else ()
    own = (each.target.id for each in kind.body if _is_parameter(each))  # type: ignore[attr-defined]
    # What a class says anew stays where it was first.
    return tuple(dict.fromkeys((*found, *own)))


def _assigned(body: list[ast.stmt]) -> dict[str, Any]:
    """What names are set to, one or several at a time."""
    found: dict[str, Any] = {}
    for each in body:
        if isinstance(each, ast.Assign):
            names, value = getattr(each.targets[0], "elts", each.targets), each.value
            values = value.elts if len(names) > 1 and isinstance(value, ast.Tuple) else [value]
            found |= {getattr(name, "id", ""): one for name, one in zip(names, values, strict=False)}
    return found


def _is_parameter(one: Any) -> bool:
    """Whether a field is a person's to choose: neither learned nor of the run."""
    given = {each.arg: each.value for each in getattr(getattr(one, "value", None), "keywords", ())}
    mine = isinstance(one, ast.AnnAssign) and getattr(getattr(one.annotation, "value", None), "id", "") != "ClassVar"
    return mine and getattr(given.get("metadata"), "id", "") not in ("LEARNED", "RUN")
