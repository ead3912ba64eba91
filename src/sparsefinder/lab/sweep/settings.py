"""A setting: a method of a sweep, the vectors it compares, and its parameters. From recipes to lists of them.

>>> [setting.name for setting in expand(Method(method="kmeans", settings={"clusters": [2, 4], "top_k": 1}))]
['kmeans-projected-clusters=2-top_k=1', 'kmeans-projected-clusters=4-top_k=1']
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from ...errors import InputError
from ...finders.base import finder, finder_class
from ...fitted import METRIC, split_settings
from ..recipe import Method

__all__ = ["Setting", "expand", "expand_all", "parameters_of"]

# What is learned or comes from the run, and is not for a recipe to say.
OWN = {"samples", "projection", "centroids", "query_edges", "key_edges", "seed", "alpha", "scale"}
# Patterns that look at no vectors at all, and those that always compute the scores themselves.
BLIND = ("bigbird", "full", "global", "longformer", "random", "strided", "window")
SCORES = ("oracle", "sketch", "topk")


@dataclass(frozen=True)
class Setting:
    """A method with one value for each of its parameters.

    inputs: "projected" (by learned maps), "pca", "raw", or "none" where no vectors are looked at.
    parameters: names and values, sorted by name.
    """

    method: str
    inputs: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.parameters)

    @property
    def name(self) -> str:
        """What it is called in names of files."""
        return _name(self.method, self.inputs, self.values)

    @property
    def as_json(self) -> str:
        """The parameters as the points have them."""
        return json.dumps(self.values, sort_keys=True)

    @property
    def fitted(self) -> Setting | None:
        """What has to be fitted for it, which settings that differ only in their use share; None if nothing has to."""
        if not _needs_fitting(self.method, self.values):
            return None
        return Setting(self.method, self.inputs, tuple(split_settings(self.method, self.values)[0].items()))

    @property
    def family(self) -> str:
        """The name that settings have in common which are measured in one pass over the pairs."""
        rest = {name: value for name, value in self.parameters if name not in ("t", "share")}
        return _name(self.method, self.inputs, rest) if self.method == "distance" else self.name


def expand_all(methods: Iterable[Method]) -> list[Setting]:
    """The settings of several methods, each once, in their order."""
    return list(dict.fromkeys(setting for method in methods for setting in expand(method)))


def expand(method: Method) -> list[Setting]:
    """Every combination of the values that are given as lists, with every kind of inputs."""
    lists = {
        name: list(value) if isinstance(value, list | tuple) else [value]
        for name, value in sorted(method.settings.items())
    }
    _check_names(method.method, lists)
    found = []
    for inputs in _inputs(method):
        for values in itertools.product(*lists.values()):
            setting = Setting(method.method, inputs, tuple(zip(lists, values, strict=True)))
            _check_values(setting)
            found.append(setting)
    return found


def _inputs(method: Method) -> tuple[str, ...]:
    if method.method in BLIND or method.method in SCORES:
        own = "none" if method.method in BLIND else "raw"
        if method.inputs not in (None, (own,)):
            got = f"{', '.join(method.inputs or ())} for {method.method}"
            raise InputError(
                "inputs", got, "none given: " + ("it looks at no vectors" if own == "none" else "only raw")
            )
        return (own,)
    if method.inputs is not None:
        return method.inputs
    return ("projected",) if method.method in METRIC else ("raw",)


def parameters_of(method: str) -> set[str]:
    """The parameters that a method has: those it is made with and those it is fitted with."""
    kind = finder_class(method)
    fit = inspect.signature(kind.fit).parameters if hasattr(kind, "fit") else {}
    return ({each.name for each in fields(kind)} | set(fit)) - OWN


def _check_names(method: str, given: Iterable[str]) -> None:
    # A window is what every setting is combined with, so the one that only has windows has no parameter left.
    known = sorted(parameters_of(method)) if method != "window" else []
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            want = f"one of {', '.join(known)}" if known else "none: windows are what every method is combined with"
            raise InputError(f"parameter of {method}", repr(name) + hint, want)


def _check_values(setting: Setting) -> None:
    """Raise now what would be raised in the middle of a run."""
    kind, values = finder_class(setting.method), setting.values
    if setting.fitted is None:
        if setting.method != "window":
            finder(setting.method, **values)
        return
    for name, parameter in inspect.signature(kind.fit).parameters.items():  # type: ignore[attr-defined]
        if parameter.default is inspect.Parameter.empty and name != "samples" and name not in values:
            raise InputError(f"parameters of {setting.method}", ", ".join(values) or "none", f"{name} among them")
    if setting.method == "sketch" and ("share" in values) == ("slack" in values):
        raise InputError("parameters of sketch", ", ".join(values) or "none", "share or slack among them")
    for name in ("top_k", "probes"):
        if values.get(name, 1) > values.get("clusters", 1):
            raise InputError(name, values[name], f"at most the {values['clusters']} clusters")


def _needs_fitting(method: str, values: Mapping[str, Any]) -> bool:
    """Whether something is missing that only training data can give."""
    kind = finder_class(method)
    if not hasattr(kind, "fit"):
        return False
    made_with = {each.name: each for each in fields(kind)}
    needed = {name for name, each in made_with.items() if each.default is MISSING}
    return not set(values) <= set(made_with) or not needed <= set(values)


def _name(method: str, inputs: str, values: Mapping[str, Any]) -> str:
    parts = [method, *([] if inputs == "none" else [inputs]), *(f"{name}={value}" for name, value in values.items())]
    return re.sub(r"[^A-Za-z0-9._=+-]", "_", "-".join(parts))
