"""What is wrong with a recipe, a sentence for each thing: its key, what was given and what would be right."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ...errors import InputError
from .parts import Recipe
from .sources import SHAPES, Part

__all__ = ["RecipeError", "explained", "path_of"]

# What pydantic's kinds of errors want, with the limits that it says.
WANTED = {
    "bool_type": "true or false",
    "dict_type": "keys and values",
    "finite_number": "a number: neither NaN nor infinite",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "model_type": "keys and values",
    "string_pattern_mismatch": "letters, digits, dots, dashes and underscores, a letter or digit first",
    "string_type": "text",
    "too_long": "{max_length} at most",
    "too_short": "{min_length} at least",
    "tuple_type": "a list",
}
# Other ways in which pydantic says the same.
SAME = {
    "bool_parsing": "bool_type",
    "float_parsing": "float_type",
    "int_from_float": "int_type",
    "int_parsing": "int_type",
    "model_attributes_type": "model_type",
    "model_dict_type": "model_type",
}

MISSING = "is missing"
_TASK = Recipe.model_fields["task"]


class RecipeError(InputError):
    """A recipe that cannot be used: all that is wrong with it."""

    def __init__(self, file: Path, problems: list[tuple[str, str]]) -> None:
        super().__init__("recipe", file, "")
        lines = [f"{place}: {words}" if place else words for place, words in problems]
        alone = f"in {file}, {lines[0]}"
        self.args = (alone if len(lines) == 1 else f"in {file}:" + "".join(f"\n  {line}" for line in lines),)


def explained(error: ValidationError, file: Path) -> RecipeError:
    """Everything that is wrong, in words."""
    problems = [(_place(problem), _sentence(problem)) for problem in error.errors()]
    meant = " ".join(words for _, words in problems if "did you mean" in words)
    # A key that is missing because it was misspelt is said once.
    return RecipeError(file, [each for each in problems if each[1] != MISSING or f"mean {each[0]}?" not in meant])


def path_of(name: str) -> str:
    """Where a key is in a recipe, or which one was meant: to say after "want"."""
    paths = dict.fromkeys(_paths(Recipe))
    same = [path for path in paths if path.rpartition(".")[2] == name]
    if same:
        return " or ".join(same)
    names = sorted({path.rpartition(".")[2] for path in paths})
    near = difflib.get_close_matches(name, names, n=1)
    return path_of(near[0]) if near else "a key that docs/recipes.md or lab/recipe/parts.py has"


def _place(problem: Any) -> str:
    """The key, dotted. Which of several classes or shapes was tried is of no interest to whoever wrote the file."""
    kinds = {get_args(one.model_fields["kind"].annotation)[0] for one in _classes(_TASK)}
    said = [str(part) for part in problem["loc"] if str(part) not in {*kinds, *SHAPES}]
    return ".".join([*said, *(["kind"] if problem["type"].startswith("union_tag") else [])])


def _sentence(problem: Any) -> str:
    kind, given, place = problem["type"], problem["input"], _place(problem)
    if kind == "missing":
        return MISSING
    if kind == "extra_forbidden":
        parent, _, last = place.rpartition(".")
        beside = [path.rpartition(".")[2] for path in _paths(Recipe) if path.rpartition(".")[0] == parent]
        near = difflib.get_close_matches(last, beside, n=1)
        return f"no such key (did you mean {f'{parent}.{near[0]}'.lstrip('.') if near else path_of(last)}?)"
    if kind.startswith("union_tag"):
        kinds = " or ".join(get_args(one.model_fields["kind"].annotation)[0] for one in _classes(_TASK))
        return f"got {_shown(given.get('kind') if isinstance(given, dict) else given)}, want {kinds}"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    want = WANTED.get(SAME.get(kind, kind))
    want = problem["msg"] if want is None else want.format(**problem.get("ctx", {}))
    return f"got {_shown(given)}, want {want}"


def _shown(given: Any) -> str:
    if isinstance(given, float) and not math.isfinite(given):
        return "NaN, which is not a number" if math.isnan(given) else f"{given}"
    return "nothing" if given is None else repr(given)


def _paths(kind: type[BaseModel], before: str = "") -> Iterator[str]:
    """The keys of a part and of all parts in it, dotted."""
    for name, one in kind.model_fields.items():
        yield before + name
        for part in _classes(one):
            yield from _paths(part, f"{before}{name}.")


def _classes(one: Any) -> list[type[Part]]:
    """The parts that a field may hold."""
    waiting, found = [one.annotation], []
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, type) and issubclass(kind, Part):
            found.append(kind)
        waiting += [each for each in get_args(kind) if not isinstance(each, str | int | float)]
    return found
