"""Reading recipes: YAML, with changes from the command line, checked; what is wrong is said by `explaining.py`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ...errors import InputError
from .explaining import explained, path_of
from .parts import Recipe

__all__ = ["dump_recipe", "load_recipe"]


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe, with changes like `task.training.steps=500`, whose values are YAML."""
    file = Path(path)
    if not file.is_file():
        raise InputError("recipe", f"{path}, which is not there{_near(file)}", "the path of a recipe, a YAML file")
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError("recipe", f"{path}, which is not YAML: {reason}", "a file of valid YAML") from error
    if not isinstance(content, dict):
        raise InputError("recipe", f"{path} with {type(content).__name__} at the top", "keys: name, task, …")
    if isinstance(content.get("engine"), str):
        # So that changes of its keys find them.
        content["engine"] = {"kind": content["engine"]}
    for change in changes:
        _set(content, change)
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise explained(error, file) from error


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, with every default filled in."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _near(file: Path) -> str:
    """The recipe that was meant, if one is called alike: there, or where the project's are."""
    folders = dict.fromkeys(folder for folder in (file.parent, Path("recipes")) if folder.is_dir())
    known = {one.stem: one for folder in folders for one in sorted(folder.glob("*.yaml"))}
    near = difflib.get_close_matches(file.stem, known, n=1)
    if near:
        return f" (did you mean {known[near[0]]}?)"
    return f" (there are {', '.join(map(str, [*known.values()][:3]))})" if known else ""


def _set(content: dict[str, Any], change: str) -> None:
    name, equals, value = change.partition("=")
    if not equals or not name.strip():
        raise InputError("--set", repr(change), "key=value, such as task.training.steps=500")
    *parents, last = name.strip().split(".")
    if not parents and last not in Recipe.model_fields:
        # Said here, and not of the recipe: whoever reads it has just typed it.
        raise InputError("--set", f"{name.strip()}, which is no key of a recipe", path_of(last))
    where = content
    for parent in parents:
        where = where.setdefault(parent, {})
        if not isinstance(where, dict):
            raise InputError("--set", repr(change), f"a key that has keys below it: {parent} is a value")
    try:
        where[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError("--set", repr(change), "a value that is valid YAML, such as [2, 4] or kmeans") from error
