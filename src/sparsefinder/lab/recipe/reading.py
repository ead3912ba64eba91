"""Reading recipes: YAML, with changes from the command line, checked, and explained where something is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ...errors import InputError
from .parts import Recipe
from .sources import Part

__all__ = ["dump_recipe", "load_recipe"]


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe, with changes like `task.training.steps=500`, whose values are YAML."""
    file = Path(path)
    if not file.is_file():
        near = [str(one) for one in sorted(file.parent.glob("*.yaml"))] if file.parent.is_dir() else []
        want = "a YAML file" + (f", such as {', '.join(near[:8])}" if near else "")
        raise InputError("recipe", f"{path}, which is not there", want)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError("recipe", f"{path}: {error}", "a file of valid YAML") from error
    if not isinstance(content, dict):
        raise InputError("recipe", f"{path} with {type(content).__name__} at the top", "keys: name, task, …")
    for change in changes:
        _set(content, change)
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise InputError("recipe", _explained(error), f"what {path} may say, see docs/recipes.md") from error


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, with every default filled in."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _set(content: dict[str, Any], change: str) -> None:
    name, equals, value = change.partition("=")
    if not equals or not name.strip():
        raise InputError("--set", repr(change), "key=value, such as task.training.steps=500")
    *parents, last = name.strip().split(".")
    where = content
    for parent in parents:
        where = where.setdefault(parent, {})
        if not isinstance(where, dict):
            raise InputError("--set", repr(change), f"a key that has keys below it: {parent} is a value")
    try:
        where[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError("--set", repr(change), "a value that is valid YAML, such as [2, 4] or kmeans") from error


def _explained(error: ValidationError) -> str:
    """What is wrong, one line each; for a key that is not known, the nearest one that is."""
    lines = []
    for problem in error.errors():
        # Which of several classes was tried is of no interest to whoever wrote the file.
        place = [str(part) for part in problem["loc"] if str(part) not in ("masked-lm", "translation")]
        line = f"{'.'.join(place)}: {problem['msg']}"
        if problem["type"] == "extra_forbidden":
            near = difflib.get_close_matches(place[-1], _known(), n=1)
            line = f"{'.'.join(place)}: no such key" + (f" (did you mean {near[0]!r}?)" if near else "")
        lines.append(line)
    return "\n  " + "\n  ".join(lines) + "\n "


def _known() -> Iterable[str]:
    return sorted({name for one in Part.__subclasses__() for name in one.model_fields})
