"""Patterns that a finder predicts (left) and the attention weights that come of them (right); stars are gold pairs."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...core.ratios import recall
from .content import Content
from .examples import SentenceTokens, sample_of
from .maps import weights_of

__all__ = ["maps_figure"]

# Heads shown, and tokens of a sentence at most: more could not be read in print.
HEADS, TOKENS = 2, 40


def maps_figure(content: Content) -> Figure | None:
    """The two heads that the first finder serves best in the shortest sentence, one per row."""
    if content.traces is None or not content.examples or not content.finders:
        return None
    example = min(content.examples, key=lambda one: len(one.queries))
    label, finders = next(iter(content.finders.items()))
    found: list[tuple[float, int, int, Tensor, Tensor, Tensor]] = []
    for site in content.traces.sites:
        if site[0] == example.kind and site in finders:
            sample = sample_of(content.traces, site, example.sequence)
            graph = finders[site](sample.q, sample.k, sample.layout)
            predicted, weights, gold = graph.dense()[0], weights_of(sample, graph), weights_of(sample, None) > 0
            shares = recall((predicted & gold).sum((-1, -2)), gold.sum((-1, -2))).tolist()
            for head, share in enumerate(shares):
                found.append((share, site[1], head, predicted[head], weights[head], gold[head]))
    # A head without gold pairs has no recall, and nothing to show.
    chosen = sorted((one for one in found if one[0] == one[0]), key=lambda one: -one[0])[:HEADS]
    if not chosen:
        return None
    figure = Figure(figsize=(7.2, 3.7 * len(chosen)), layout="constrained")
    axes = figure.subplots(len(chosen), 2, squeeze=False)
    for (left, right), (share, layer, head, predicted, weights, gold) in zip(axes, chosen, strict=True):
        _matrix(left, 0.35 * predicted.float(), gold, example)
        _matrix(right, weights.float().sqrt(), gold, example)
        left.set_title(f"layer {layer}, head {head}: predicted, recall {share:.2f}", fontsize=8)
        right.set_title("weights", fontsize=8)
    figure.suptitle(label, fontsize=9)
    return figure


def _matrix(axes: Axes, values: Tensor, gold: Tensor, example: SentenceTokens) -> None:
    rows, columns = min(TOKENS, values.shape[0]), min(TOKENS, values.shape[1])
    axes.imshow(values[:rows, :columns].numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="none")
    i, j = gold[:rows, :columns].nonzero().unbind(-1)
    size = max(2.5, 110 / max(rows, columns)) ** 2
    axes.scatter(j.numpy(), i.numpy(), marker="*", s=size, color="black", linewidths=0)
    axes.set_xticks(range(columns), [_printable(one) for one in example.keys[:columns]], rotation=90, fontsize=5)
    axes.set_yticks(range(rows), [_printable(one) for one in example.queries[:rows]], fontsize=5)
    axes.tick_params(length=0)


def _printable(token: str) -> str:
    """A token without marks of its tokenizer, and without characters that have no shape."""
    short = token.lstrip("Ġ▁").removeprefix("##")[:12]
    return "".join(one if one.isprintable() else "·" for one in short)
