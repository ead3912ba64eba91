"""A setting of a method as it was measured: united with a window and global tokens. And what it is called in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...describing import setting_words
from ...finders import methods

__all__ = ["NO_PARAMETERS", "MeasuredSetting", "extra_words", "method_label", "own_words"]

# What is said of a setting that has no parameters.
NO_PARAMETERS = "no parameters"


@dataclass(frozen=True, order=True)
class MeasuredSetting:
    """One setting of a method, united with a window and global tokens."""

    method: str
    inputs: str
    own: str
    window: int
    globals: int

    def words(self) -> str:
        """The setting as a reader wants it: `8 clusters, the nearest 1 of each, window 11, 1 global token`."""
        return ", ".join(part for part in (self.own_words(), *self.extra_words()) if part)

    def own_words(self) -> str:
        """What it says of itself."""
        return own_words(self.method, self.own)

    def extra_words(self, without: int = 0) -> list[str]:
        """The patterns that it is united with; global tokens are left out where they are so many."""
        return extra_words(self.window, 0 if self.globals == without else self.globals)


def method_label(method: str, inputs: str) -> str:
    """What people call a method, with the vectors that it compares where they are not those that it takes by itself."""
    kind = methods().get(method)
    if kind is None:
        return method
    return kind.about.label + ("" if inputs == kind.about.inputs[0] else f" ({inputs})")


def own_words(method: str, setting: str) -> str:
    """`{"share": 0.05}` of sketch as `keeps the best 5 % of keys`."""
    parameters: Mapping[str, Any] = json.loads(setting) if setting else {}
    return setting_words(method, parameters)


def extra_words(window: int, count: int) -> list[str]:
    """The fixed patterns that a setting is united with, in words."""
    tokens = f"{count} global token{'' if count == 1 else 's'}"
    return [part for part in (f"window {window}" if window else "", tokens if count else "") if part]
