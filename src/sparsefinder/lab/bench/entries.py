"""What is timed: a method with what is said of its settings, or one of those that every method is set against.

>>> [entry.label for entry in entries_of("sketch, kmeans:clusters=16:top_k=2")]
['sketch', 'k-means, clusters 16, top k 2']
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from ...errors import InputError
from ...finders import Finder, finder_class, methods
from ...fitting import Wanted, candidates
from ..recipe import Timing
from ..sweep.grids import timed_settings
from ..sweep.settings import FULL, SOFTMAX, WANTED

__all__ = ["REFERENCES", "Entry", "block_entries", "entries_of"]

# A teacher may have been trained with either: all pairs are attended as it attends, softmax is torch's.
LABELS = {SOFTMAX.method: "full softmax", FULL.method: "all pairs"}


@dataclass(frozen=True)
class Entry:
    """A method as it is timed.

    method: by name; or "full" (entmax over all pairs), "softmax".
    parameters: names and values, sorted; what is not said is chosen for the wanted recall, which may be among them.
    exact: predictions are only the order of work, and the result is that of all pairs.
    """

    method: str
    parameters: tuple[tuple[str, Any], ...] = ()
    exact: bool = False

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> Entry:
        """The entry of a row of `points/bench`."""
        return Entry(row["method"], _sorted(json.loads(row["setting"])), row["exact"])

    @property
    def finds(self) -> bool:
        """Whether it predicts anything: what it is set against does not."""
        return self.method not in (FULL.method, SOFTMAX.method)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of its finder: without what it should reach, and what it compares."""
        return {name: value for name, value in self.parameters if name not in (*WANTED, "inputs")}

    @property
    def as_json(self) -> str:
        return json.dumps(dict(self.parameters), sort_keys=True)

    @property
    def label(self) -> str:
        """What people call it, and what is said of its settings."""
        kind = methods().get(self.method)
        name = LABELS.get(self.method) or (self.method if kind is None else kind.about.label)
        said = [f"{key.replace('_', ' ')} {_words(value)}" for key, value in self.parameters]
        return ", ".join([name, *said, *(["exact"] if self.exact else [])])

    @property
    def name(self) -> str:
        """What it is called in names of files."""
        parts = [self.method, *(f"{key}={value}" for key, value in self.parameters)]
        return re.sub(r"[^A-Za-z0-9._=+-]", "_", "-".join(parts))

    def wanted(self, recall: float) -> Wanted | None:
        """What its free settings are chosen for; None where it says all of them."""
        about, own = finder_class(self.method).about, dict(self.parameters)
        asked = {key: own[key] for key in WANTED if key in own}
        if asked:
            return Wanted(**asked)
        fixed = any(dial.field in own for dial in about.dials) if about.dials else set(about.grid) <= set(own)
        return None if fixed and self.settings else Wanted(recall)

    def options(self, recall: float) -> list[Finder]:
        """What is chosen among, before anything is learned; an error where that cannot be."""
        possible = finder_class(self.method).about.inputs
        if self.inputs not in possible:
            raise InputError("inputs", repr(self.inputs), f"what {self.method} takes: {', '.join(possible)}")
        return list(candidates(self.method, self.settings, self.wanted(recall)))

    @cached_property
    def inputs(self) -> str:
        """The vectors that it compares."""
        return dict(self.parameters).get("inputs", finder_class(self.method).about.inputs[0])


# What every method is set against, measured with it in turn.
REFERENCES = (Entry(SOFTMAX.method), Entry(FULL.method))


def entries_of(words: str | None) -> tuple[Entry, ...]:
    """Methods as the command line has them; every one that could be used in place of full attention if None."""
    if words is None:
        # Ours first, which are made to be fast: where time is short, these are what there is time for.
        used = [kind.about for kind in methods().values() if kind.about.family != "reference"]
        return tuple(Entry(about.name) for about in sorted(used, key=lambda about: about.family != "ours"))
    # A comma within brackets is one of a list: clusters=[4,8].
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", words)]
    found = dict.fromkeys(_entry(part) for part in parts if part)
    return tuple(entry for entry in found if entry.finds)


def _entry(words: str) -> Entry:
    name, *settings = (part.strip() for part in words.split(":"))
    exact = "exact" in settings
    parameters: dict[str, Any] = {}
    for said in settings:
        key, equals, value = said.partition("=")
        if equals:
            parameters[key.strip()] = yaml.safe_load(value)
        elif said != "exact":
            raise InputError("methods", words, "settings as name=value after colons: kmeans:clusters=16:top_k=2")
    entry = Entry(name, _sorted(parameters), exact)
    if entry.finds:
        # Unknown methods and settings are said now, and not after an hour.
        entry.options(recall=1.0)
    return entry


def _words(value: Any) -> str:
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sorted(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Names and values as an entry has them, which can be told apart: lists are tuples."""
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(given.items()))


def block_entries(timing: Timing, entries: tuple[Entry, ...]) -> dict[tuple[int, int], tuple[Entry, ...]]:
    """The methods of the paper's Sec. 7 that are among the entries, for each size and number of blocks."""
    asked = {entry.method for entry in entries}
    grid = {
        place: tuple(Entry(one.method, one.parameters) for one in settings if one.method in asked)
        for place, settings in timed_settings(timing).items()
    }
    return {place: some for place, some in grid.items() if some}
