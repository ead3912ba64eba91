"""Clusters and parts of speech: how often each tag falls into each cluster of a k-means finder, by queries and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...finders import Finder, Union
from ...finders.base import projected
from ...finders.k_means import KMeans, nearest
from ...traces.store import Site, Traces
from .encoding import deflated
from .examples import SentenceTokens, sample_of
from .speech import NoTaggerError, Tagger, spans

__all__ = ["ClusterTags", "cluster_tags"]

SIDES = ("queries", "keys")


@dataclass(frozen=True, eq=False)
class ClusterTags:
    """Counts of one finder: for each layer an array [heads, side, cluster, tag]."""

    finder: str
    tags: Sequence[str]
    counts: Mapping[Site, NDArray[np.int64]]

    def most_telling(self) -> tuple[Site, int]:
        """The head whose clusters say most about the tags of its queries and keys: the highest mutual information."""
        best = [
            (float(information), site, head)
            for site, counts in self.counts.items()
            for head, information in enumerate(_information(counts).sum(-1))
        ]
        _, site, head = max(best, key=lambda one: one[0])
        return site, head

    def to_page(self) -> dict[str, Any]:
        site, head = self.most_telling()
        return {
            "finder": self.finder,
            "tags": list(self.tags),
            "sites": [
                {"kind": kind, "layer": layer, "heads": counts.shape[0], "clusters": counts.shape[2],
                 "data": deflated(counts.astype("<u4").tobytes())}
                for (kind, layer), counts in self.counts.items()
            ],
            "start": {"site": list(self.counts).index(site), "head": head},
        }  # fmt: skip


def cluster_tags(
    traces: Traces, examples: Sequence[SentenceTokens], finders: Mapping[str, Mapping[Site, Finder]], tag: Tagger
) -> list[ClusterTags]:
    """The counts of every k-means finder, over the sentences whose text is known."""
    tagged = [(example, *_tags(example, tag)) for example in examples]
    tags = sorted({one for _, *sides in tagged for side in sides for one in side if one})
    if not tags:
        raise NoTaggerError("The pipeline gave no parts of speech for the sentences of this run: it may lack a tagger.")
    found = []
    for label, by_site in finders.items():
        k_means = {site: one for site, finder in by_site.items() if (one := _k_means(finder)) is not None}
        if k_means:
            counts = {site: _counts(traces, site, one, tagged, tags) for site, one in k_means.items()}
            found.append(ClusterTags(label, tags, counts))
    return found


def _counts(
    traces: Traces,
    site: Site,
    finder: KMeans,
    tagged: Sequence[tuple[SentenceTokens, list[str | None], list[str | None]]],
    tags: Sequence[str],
) -> NDArray[np.int64]:
    heads, clusters, _ = finder.centroids.shape
    counts = np.zeros((heads, 2, clusters, len(tags)), dtype=np.int64)
    number = {tag: place for place, tag in enumerate(tags)}
    for example, *sides in tagged:
        if example.kind != site[0]:
            continue
        sample = sample_of(traces, site, example.sequence)
        for side, (tokens, names) in enumerate(
            zip(projected(finder.projection, sample.q, sample.k), sides, strict=True)
        ):
            near = nearest(tokens, finder.centroids, 1)[0, :, :, 0].numpy()
            known = np.array([place for place, name in enumerate(names) if name is not None], dtype=np.int64)
            which = np.array([number[name] for name in names if name is not None], dtype=np.int64)
            for head in range(heads):
                pairs = near[head, known] * len(tags) + which
                counts[head, side] += np.bincount(pairs, minlength=clusters * len(tags)).reshape(clusters, -1)
    return counts


def _tags(example: SentenceTokens, tag: Tagger) -> tuple[list[str | None], list[str | None]]:
    """The tags of the queries and of the keys."""
    of_characters = tag(example.text)
    queries, keys = (
        [None if place is None else of_characters[place] for place in spans(tokens, example.text)]
        for tokens in (example.queries, example.keys)
    )
    return queries, keys


def _k_means(finder: Finder) -> KMeans | None:
    parts = finder.finders if isinstance(finder, Union) else (finder,)
    return next((part for part in parts if isinstance(part, KMeans)), None)


def _information(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mutual information of cluster and tag, in bits, over the last two dimensions."""
    joint = counts / np.maximum(counts.sum((-1, -2), keepdims=True), 1)
    apart = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    ratio = np.where(joint > 0, joint / np.where(apart > 0, apart, 1), 1)
    return (joint * np.log2(ratio)).sum((-1, -2))
