"""What the leading finder predicts in heads that show something: near tokens, far ones, the same word, delimiters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from ...core.ratios import recall
from .content import Content
from .examples import SentenceTokens, sample_of
from .figures_look import SMALL, TEXT
from .maps import weights_of
from .patterns import PATTERNS, pattern_shares, telling_heads

__all__ = ["maps_figure"]

# Tokens of a sentence at most: more could not be read in print.
TOKENS = 24
PREDICTED, WEIGHT, MISSED, UNSEEN = "#c6dbef", "#08519c", "#c22f00", "#e6e6e6"


@dataclass(frozen=True)
class _Head:
    layer: int
    head: int
    predicted: Tensor
    weights: Tensor
    gold: Tensor
    # Whether queries see only what comes before them.
    causal: bool

    @property
    def title(self) -> str:
        found = recall((self.predicted & self.gold).sum(), self.gold.sum()).item()
        return f"layer {self.layer}, head {self.head}: recall {100 * found:.0f} %"


def maps_figure(content: Content) -> Figure | None:
    """A matrix for each pattern, of the head that shows it most, in the shortest sentence; and a key."""
    if content.traces is None or not content.examples or not content.finders:
        return None
    example = min(content.examples, key=lambda one: len(one.queries))
    label, finders = next(iter(content.finders.items()))
    heads: list[_Head] = []
    shares = {name: list[float]() for name in PATTERNS}
    for site in content.traces.sites:
        if site[0] == example.kind and site in finders:
            sample = sample_of(content.traces, site, example.sequence)
            graph, full = finders[site](sample.q, sample.k, sample.layout), weights_of(sample, None)
            each = zip(graph.dense()[0], weights_of(sample, graph), full > 0, strict=True)
            heads += [_Head(site[1], head, *some, sample.layout.causal) for head, some in enumerate(each)]
            for name, some in pattern_shares(full, example.queries, example.keys).items():
                shares[name] += some.tolist()
    chosen = {name: heads[place] for name, place in telling_heads(shares).items()}
    if not chosen:
        return None
    across = min(2, len(chosen))
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(TEXT * across / 2, 3.5 * down + 0.6), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    for panel, (name, one) in zip(axes.flat, chosen.items(), strict=False):
        _matrix(panel, one, example)
        panel.set_title(f"{name} – {one.title}")
    figure.suptitle(label, fontsize=8)
    causal = any(one.causal for one in chosen.values())
    if len(chosen) < axes.size:
        # What would be left empty has the key.
        axes.flat[-1].set_axis_off()
        axes.flat[-1].legend(handles=_key(causal), loc="center")
    else:
        figure.legend(handles=_key(causal), loc="outside lower center", ncols=5, columnspacing=1.2)
    return figure


def _matrix(axes: Axes, one: _Head, example: SentenceTokens) -> None:
    rows, columns = (min(TOKENS, size) for size in one.predicted.shape)
    predicted, weights, gold = (each[:rows, :columns] for each in (one.predicted, one.weights, one.gold))
    # The square root: small weights are weights too. What is predicted and has none is at 0, what is not below it.
    shown = weights.float().sqrt().masked_fill(~predicted, -1.0)
    if one.causal:
        shown = shown.masked_fill(torch.ones_like(predicted).triu(1), torch.nan)
    colours = LinearSegmentedColormap.from_list("weights", [PREDICTED, WEIGHT]).with_extremes(under="white", bad=UNSEEN)
    axes.imshow(shown.numpy(), cmap=colours, vmin=0, vmax=1, interpolation="none")
    size = (110 / max(rows, columns)) ** 2
    # A white edge: a black star on the darkest blue could not be seen.
    for found, face, edge, wide in (
        (gold & predicted, "black", "white", 0.4),
        (gold & ~predicted, "none", MISSED, 0.8),
    ):
        i, j = found.nonzero().unbind(-1)
        axes.scatter(j.numpy(), i.numpy(), marker="*", s=size, facecolors=face, edgecolors=edge, linewidths=wide)
    axes.set_xticks(range(columns), [_printable(one) for one in example.keys[:columns]], rotation=90)
    axes.set_yticks(range(rows), [_printable(one) for one in example.queries[:rows]])
    axes.tick_params(labelsize=SMALL - 0.5)
    axes.tick_params(length=0)


def _key(causal: bool) -> list[Patch | Line2D]:
    star: Any = {"marker": "*", "linestyle": "none", "markersize": 8}
    unseen = [Patch(facecolor=UNSEEN, label="comes later")] if causal else []
    return [
        Patch(facecolor=PREDICTED, label="predicted"),
        Patch(facecolor=WEIGHT, label="weight, the darker the more"),
        Line2D([], [], label="gold", color="black", **star),
        Line2D([], [], label="gold, missed", markerfacecolor="none", markeredgecolor=MISSED, **star),
        *unseen,
    ]


def _printable(token: str) -> str:
    """A token without marks of its tokenizer, and without characters that have no shape."""
    short = token.lstrip("Ġ▁").removeprefix("##")[:10]
    return "".join(one if one.isprintable() else "·" for one in short)
