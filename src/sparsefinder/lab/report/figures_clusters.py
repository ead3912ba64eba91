"""The share of each part of speech in each cluster of the most telling head, queries and keys apart."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from .clusters import SIDES
from .content import Content
from .figures_look import SMALL, TEXT

__all__ = ["cluster_figure"]


def cluster_figure(content: Content) -> Figure | None:
    """P(tag | cluster) above and P(cluster | tag) below; a column of panels for queries and one for keys."""
    if isinstance(content.clusters, str):
        return None
    found = content.clusters[0]
    (kind, layer), head = found.most_telling()
    counts = found.counts[kind, layer][head].astype(float)
    clusters, tags = counts.shape[1:]
    figure = Figure(figsize=(TEXT, 0.42 * tags + 1.8), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for row, (given, name) in enumerate(((2, "P(tag | cluster)"), (1, "P(cluster | tag)"))):
        for side, tokens in enumerate(SIDES):
            # [cluster, tag] of one side; what is given sums to one.
            shares = counts[side] / np.maximum(counts[side].sum(given - 1, keepdims=True), 1)
            panel = axes[row, side]
            image = panel.imshow(shares.T, vmin=0, vmax=1, cmap="Blues", aspect="auto")
            panel.set_title(f"{tokens}: {name} (%)")
            panel.set_yticks(range(tags), found.tags)
            panel.set_xticks(range(0, clusters, max(1, clusters // 16)))
            panel.tick_params(labelsize=SMALL, length=2)
            for cluster, tag in zip(*np.nonzero(shares >= 0.01), strict=True):
                share = shares[cluster, tag]
                ink = "white" if share > 0.55 else "black"
                panel.text(cluster, tag, f"{100 * share:.0f}", ha="center", va="center", fontsize=SMALL - 1, color=ink)
    figure.supxlabel("Cluster")
    figure.suptitle(f"{found.finder}; layer {layer}, head {head}", fontsize=8)
    figure.colorbar(image, ax=axes, label="share (%)", shrink=0.8, format=PercentFormatter(1.0, decimals=0, symbol=""))
    return figure
