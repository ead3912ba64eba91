"""A setting: a method of a sweep, the vectors it compares, and its parameters. From recipes to lists of them.

>>> [setting.name for setting in expand(Method(method="kmeans", settings={"clusters": [2, 4], "top_k": 1}))]
['kmeans-projected-clusters=2-top_k=1', 'kmeans-projected-clusters=4-top_k=1']
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from ...errors import InputError
from ...finders import Finder, Full, finder, finder_class
from ...finders.base import roles
from ...finders.registry import parameters_of
from ...fitting import Wanted, map_settings
from ..recipe import Method

__all__ = ["FULL", "SOFTMAX", "WANTED", "Setting", "expand", "expand_all"]

# In place of a setting of the dial: what it should reach.
WANTED = tuple(each.name for each in fields(Wanted))


@dataclass(frozen=True)
class Setting:
    """A method with one value for each of its parameters.

    inputs: "projected" (by learned maps), "pca", "raw", or "none" where no vectors are looked at.
    parameters: names and values, sorted by name; `recall` or `sparsity` instead of a setting of the dial.
    """

    method: str
    inputs: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def of(one: Finder) -> Setting:
        """The setting of a finder that has no parameters."""
        return Setting(one.about.name, one.about.inputs[0])

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
    def wanted(self) -> Wanted | None:
        """What its dial has to be set for; None if the setting says it, or has none."""
        given = {name: value for name, value in self.parameters if name in WANTED}
        return Wanted(**given) if given else None

    @cached_property
    def finder(self) -> Finder:
        """Its finder, before anything is learned."""
        values = {name: value for name, value in self.parameters if name not in WANTED}
        dials = finder_class(self.method).about.dials
        start = dials[0].start if self.wanted is not None else {}
        return finder(self.method, **start, **values)

    def check(self) -> None:
        """Raise now what would be raised in the middle of a run: whatever its finder does not take."""
        _ = self.finder

    @property
    def fitted(self) -> Setting | None:
        """What has to be fitted for it, which settings that differ only in their use share; None if nothing has to."""
        if self.finder.ready:
            return None
        needed = {name for name, role in roles(type(self.finder)) if role in ("fit", "maps")}
        return self._with(needed)

    @property
    def unturned(self) -> Setting:
        """What settings have in common that want different things of one finder."""
        return self._with({name for name, _ in self.parameters} - set(WANTED))

    @property
    def family(self) -> Setting:
        """What settings have in common that differ in the dial alone, where these are measured in one pass."""
        dial = self.finder.dial
        if dial is None or not dial.every_pair:
            return self
        return self._with({name for name, _ in self.parameters} - {dial.field, *WANTED})

    @property
    def maps(self) -> str | None:
        """The name of the maps that it compares in, which holds all that they are learned for."""
        if self.inputs not in ("projected", "pca"):
            return None
        if self.inputs == "pca":
            return "pca"
        learned_for = map_settings(self.finder)
        said = [f"{name}={value}" for name, value in sorted(learned_for.items()) if (name, value) not in PLAIN]
        return "-".join(["projection", *said])

    def _with(self, names: Iterable[str]) -> Setting:
        wanted = set(names)
        return Setting(self.method, self.inputs, tuple(each for each in self.parameters if each[0] in wanted))


# Maps of single tokens, and means of blocks, are the rule: they go without saying.
PLAIN = {("block", 1), ("pooling", "mean")}


# The whole model, with entmax over all pairs, and the same weights under softmax: what the others are compared with.
FULL, SOFTMAX = Setting.of(Full()), Setting("softmax", "none")


def expand_all(methods: Iterable[Method]) -> list[Setting]:
    """The settings of several methods, each once, in their order."""
    return list(dict.fromkeys(setting for method in methods for setting in expand(method)))


def expand(method: Method) -> list[Setting]:
    """Every combination of the values that are given as lists, with every kind of inputs.

    A method without a dial of which nothing is said is swept over a grid of its own.
    """
    about = finder_class(method.method).about
    given: Mapping[str, Any] = method.settings or ({} if about.dials else about.grid)
    lists = {name: list(value) if isinstance(value, list | tuple) else [value] for name, value in sorted(given.items())}
    _check_names(method.method, lists)
    found = []
    for inputs in _inputs(method):
        for values in itertools.product(*lists.values()):
            setting = Setting(method.method, inputs, tuple(zip(lists, values, strict=True)))
            setting.check()
            found.append(setting)
    return found


def _inputs(method: Method) -> tuple[str, ...]:
    possible = finder_class(method.method).about.inputs
    if method.inputs is None:
        return possible[:1]
    for inputs in method.inputs:
        if inputs not in possible or possible == ("raw",):
            got = f"{', '.join(method.inputs)} for {method.method}"
            takes = {"none": "it looks at no vectors", "raw": "only raw"}
            want = f"none given: {takes[possible[0]]}" if len(possible) == 1 else f"some of {', '.join(possible)}"
            raise InputError("inputs", got, want)
    return method.inputs


def _check_names(method: str, given: Iterable[str]) -> None:
    kind = finder_class(method)
    known = parameters_of(kind) + list(WANTED if kind.about.dials else ())
    given = list(given)
    for name in given:
        if name in WANTED and name not in known:
            want = "settings: its graphs are not nested, so that no dial leads to it"
            raise InputError(f"parameter of {method}", repr(name), want)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise InputError(f"parameter of {method}", repr(name) + hint, f"one of {', '.join(known)}")
    both = [name for name in given if name in WANTED or name in {dial.field for dial in kind.about.dials}]
    if len(both) > 1 and any(name in WANTED for name in both):
        raise InputError(f"parameters of {method}", ", ".join(both), "one of them: each of them sets the dial")


def _name(method: str, inputs: str, values: Mapping[str, Any]) -> str:
    parts = [method, *([] if inputs == "none" else [inputs]), *(f"{name}={value}" for name, value in values.items())]
    return re.sub(r"[^A-Za-z0-9._=+-]", "_", "-".join(parts))
