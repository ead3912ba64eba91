"""How each method looks, on the page and in print: name, colour, marker. The same in every run, to be known again.

Methods say it of themselves (`Finder.about`). Colours are told apart by people who see few of them (after Okabe and
Ito, and Tol), and nothing rests on colour alone: every method has a marker of its own, and where it was run on several
inputs, a dash and a filling for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...finders import methods

__all__ = ["Series", "Style", "series_of", "style"]


@dataclass(frozen=True)
class Style:
    """A method's name for readers, its colour on light and on dark ground, and its marker (matplotlib's name)."""

    label: str
    light: str
    dark: str
    marker: str


# The model with softmax in place of entmax is no finder, but has running times.
SOFTMAX = Style("full softmax", "#666666", "#b0b0b0", "_")
INPUTS = ("projected", "pca", "raw", "none")


@dataclass(frozen=True)
class Series:
    """What is one line in a chart: a method on some inputs.

    rank: the place of its inputs among those the method was run on; the first is filled and solid.
    """

    method: str
    inputs: str
    label: str
    rank: int

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.inputs

    @property
    def style(self) -> Style:
        return style(self.method)

    @property
    def competes(self) -> bool:
        """Whether one could use it in place of full attention; else it is there to compare with."""
        kind = methods().get(self.method)
        return self.method != "softmax" if kind is None else kind.about.family != "reference"

    @property
    def bound(self) -> bool:
        """Whether no other can be sparser at its recall."""
        kind = methods().get(self.method)
        return kind is not None and kind.about.bound


def style(method: str) -> Style:
    """The look of a method; a plain one for a method that is not installed any more."""
    kind = methods().get(method)
    if kind is None:
        return SOFTMAX if method == "softmax" else Style(method, "#595959", "#c0c0c0", "*")
    look = kind.about.look
    return Style(kind.about.label, look.light, look.dark, look.marker)


def series_of(pairs: Iterable[tuple[str, str]]) -> list[Series]:
    """The lines for pairs of a method and its inputs, in a fixed order, the inputs named where there are several."""
    inputs: dict[str, list[str]] = {}
    order = list(methods())
    for method, name in sorted(set(pairs), key=lambda pair: (_place(pair[0], order), _place(pair[1], INPUTS), pair)):
        inputs.setdefault(method, []).append(name)
    return [
        Series(method, name, style(method).label + (f" ({_words(name)})" if len(names) > 1 else ""), rank)
        for method, names in inputs.items()
        for rank, name in enumerate(names)
    ]


def _words(inputs: str) -> str:
    return {"projected": "learned", "pca": "PCA", "none": "no vectors"}.get(inputs, inputs)


def _place(name: str, known: Iterable[str]) -> int:
    order = list(known)
    return order.index(name) if name in order else len(order)
