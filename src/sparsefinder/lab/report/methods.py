"""How each method looks, on the page and in print: name, colour, marker. The same in every run, to be known again.

Colours are told apart by people who see few of them (after Okabe and Ito, and Tol), and nothing rests on colour alone:
every method has a marker of its own, and where it was run on several inputs, a dash and a filling for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["REFERENCES", "Series", "Style", "series_of", "style"]

# What nobody can use in place of full attention: bounds to compare with. They do not compete.
REFERENCES = ("full", "oracle", "softmax", "topk")


@dataclass(frozen=True)
class Style:
    """A method's name for readers, its colour on light and on dark ground, and its marker (matplotlib's name)."""

    label: str
    light: str
    dark: str
    marker: str


STYLES = {
    "distance": Style("distance", "#c84e00", "#ff8f4d", "o"),
    "kmeans": Style("k-means", "#0062a8", "#5bb0f0", "s"),
    "quantization": Style("quantization", "#a8477f", "#e38fc0", "^"),
    "sketch": Style("sketch", "#007a58", "#2fc496", "D"),
    "probe": Style("probe", "#1787b8", "#7fd4f5", "v"),
    "routing": Style("Routing Transformer", "#6a3d9a", "#b492e0", "p"),
    "reformer": Style("Reformer", "#7a6f00", "#cfc24a", ">"),
    "longformer": Style("Longformer", "#b87900", "#f0b93f", "<"),
    "bigbird": Style("BigBird", "#8c4a2f", "#d09274", "P"),
    "window": Style("window", "#3a3a3a", "#d6d6d6", "X"),
    "block-topk": Style("blocks, top-k (v1)", "#0b6e75", "#4fc3c9", "h"),
    "block-centroids": Style("blocks, centroids (v2)", "#9b2335", "#f0808c", "d"),
    "strided": Style("strided", "#5f6b2d", "#b4c46a", "1"),
    "random": Style("random blocks", "#777777", "#a8a8a8", "2"),
    "global": Style("global tokens", "#4d5d7a", "#9fb2d6", "3"),
    "oracle": Style("gold graph", "#555555", "#bbbbbb", "4"),
    "topk": Style("best of its size", "#666666", "#b0b0b0", "|"),
    "full": Style("full entmax", "#000000", "#ffffff", "_"),
    "softmax": Style("full softmax", "#666666", "#b0b0b0", "_"),
}
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
    def style(self) -> Style:
        return style(self.method)

    @property
    def competes(self) -> bool:
        return self.method not in REFERENCES


def style(method: str) -> Style:
    """The look of a method; a plain one for a method that is not ours."""
    return STYLES.get(method, Style(method, "#595959", "#c0c0c0", "*"))


def series_of(pairs: Iterable[tuple[str, str]]) -> list[Series]:
    """The lines for pairs of a method and its inputs, in a fixed order, the inputs named where there are several."""
    inputs: dict[str, list[str]] = {}
    for method, name in sorted(set(pairs), key=lambda pair: (_place(pair[0], STYLES), _place(pair[1], INPUTS), pair)):
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
