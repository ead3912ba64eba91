"""A setting of a method as it was measured: united with a window and global tokens. And what it is called in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .settings import WANTED

__all__ = ["NO_PARAMETERS", "MeasuredSetting", "extra_words", "own_words"]

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
        """The setting as a reader wants it: `clusters 8, top k 1, window 11, 1 global`."""
        return ", ".join(part for part in (own_words(self.own), *extra_words(self.window, self.globals)) if part)


def own_words(setting: str) -> str:
    """`{"top_k": 1}` as `top k 1`."""
    parameters: Mapping[str, Any] = json.loads(setting) if setting else {}
    return ", ".join(_in_words(name, value) for name, value in parameters.items())


def _in_words(name: str, value: Any) -> str:
    if name in WANTED:
        return f"set for {name} {_number(value)}"
    return f"{name.replace('_', ' ')} {_number(value)}"


def extra_words(window: int, count: int) -> list[str]:
    """The fixed patterns that a setting is united with, in words."""
    return [part for part in (f"window {window}" if window else "", f"{count} global" if count else "") if part]


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
