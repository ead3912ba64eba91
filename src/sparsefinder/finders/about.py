"""What a method says of itself: its names, its paper, what it compares, and the dial that orders its graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ..families import Family

__all__ = ["FIT", "LEARNED", "MAPS", "RUN", "About", "Dial", "Look", "Place"]

# The metadata of a finder's fields. What has none is only used after fitting: another value needs no other fit.
# Needed to fit:
FIT: Mapping[str, str] = MappingProxyType({"role": "fit"})
# Needed before that, to learn the maps it compares in: an argument of `learn` of the same name.
MAPS: Mapping[str, str] = MappingProxyType({"role": "maps"})
# Learned from training data: tensors with an entry per head, or a projection.
LEARNED: Mapping[str, str] = MappingProxyType({"role": "learned"})
# Of the run or the layer: a seed, α, the scale of the scores.
RUN: Mapping[str, str] = MappingProxyType({"role": "run"})


@dataclass(frozen=True)
class Dial:
    """The one setting that orders a method's graphs by inclusion: a higher one predicts all that a lower one does.

    field: its name among the fields, which take one value, or one per head.
    least, most: where it begins and ends.
    whole: whether it is a whole number.
    every_pair: whether finding looks at every pair anyway, so that many settings can share one pass over them.
    """

    field: str
    least: int | float = 0
    most: int | float = math.inf
    whole: bool = False
    every_pair: bool = False

    @property
    def start(self) -> dict[str, Any]:
        """What a finder is made with before its dial is set."""
        return {self.field: int(self.least) if self.whole else self.least}


@dataclass(frozen=True)
class Look:
    """Colours on light and on dark ground, and a marker (matplotlib's name)."""

    light: str = "#595959"
    dark: str = "#c0c0c0"
    marker: str = "*"


@dataclass(frozen=True)
class About:
    """A method in a few words.

    name: in recipes and on the command line.
    label: for people.
    family: "paper" (a variant of Sparsefinder in the paper), "rival" (a method of others), "ours" (not in the paper),
    "reference" (nothing to use in place of full attention, but to compare with).
    compares: "nothing" (positions alone), "closeness" (of vectors), "scores" (or approximations of them).
    paper: where it comes from.
    bound: whether no graph that finds as many gold pairs is sparser. Sweeps unite it with nothing.
    besides: whether what it counts comes besides a window and global tokens, its fields `window` and `globals`.
    dials: none where graphs are not nested; where there are several, one of them is set, and the first unless told.
    grid: the settings that a wanted recall is looked for among, besides a dial, unless they are given.
    words: how its settings are said, by name: `{}` is the value, `{%}` the same in percent, `(s)` a plural.
    """

    name: str
    label: str
    family: Family
    compares: Literal["nothing", "closeness", "scores"] = "nothing"
    paper: str = ""
    bound: bool = False
    besides: bool = False
    dials: tuple[Dial, ...] = ()
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    look: Look = Look()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The vectors that it can compare, what it takes unless told otherwise first.

        The paper learns a projection for closeness. Methods of others are made for queries and keys as they are, and
        whoever wants scores makes them of those.
        """
        if self.compares == "closeness":
            return ("projected", "pca", "raw") if self.family == "paper" else ("raw", "projected", "pca")
        return ("none",) if self.compares == "nothing" else ("raw",)


@dataclass(frozen=True)
class Place:
    """An attention layer that a finder is used in, and how it scores.

    kind: "encoder", "decoder" or "cross".
    alpha: one number, or one per head.
    mass: the share of a row's weight that is gold, as `gold_graph` takes it.
    """

    kind: str
    layer: int
    scale: float | None = None
    alpha: float | tuple[float, ...] = 1.5
    mass: float | None = None
