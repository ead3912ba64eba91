"""Clusters and parts of speech: how often each tag falls into each cluster of a finder, by queries and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...finders import Finder, Union
from ...finders.base import Assigned
from ...learning.sample import Sample
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
    """The counts of every finder that has clusters, over the sentences whose text is known."""
    tagged = [(example, *_tags(example, tag)) for example in examples]
    tags = sorted({one for _, *sides in tagged for side in sides for one in side if one})
    if not tags:
        raise NoTaggerError("The pipeline gave no parts of speech for the sentences of this run: it may lack a tagger.")
    found = []
    for label, by_site in finders.items():
        counts = {site: _counts(traces, site, finder, tagged, tags) for site, finder in by_site.items()}
        known = {site: each for site, each in counts.items() if each is not None}
        if known:
            found.append(ClusterTags(label, tags, known))
    return found


def _counts(
    traces: Traces,
    site: Site,
    finder: Finder,
    tagged: Sequence[tuple[SentenceTokens, list[str | None], list[str | None]]],
    tags: Sequence[str],
) -> NDArray[np.int64] | None:
    counts: NDArray[np.int64] | None = None
    number = {tag: place for place, tag in enumerate(tags)}
    for example, *sides in tagged:
        if example.kind != site[0]:
            continue
        sample = sample_of(traces, site, example.sequence)
        found = _assigned(finder, sample)
        if found is None:
            return None
        *by_side, clusters = found
        heads = sample.q.shape[1]
        counts = np.zeros((heads, 2, clusters, len(tags)), dtype=np.int64) if counts is None else counts
        for side, (near, names) in enumerate(zip(by_side, sides, strict=True)):
            known = np.array([place for place, name in enumerate(names) if name is not None], dtype=np.int64)
            which = np.array([number[name] for name in names if name is not None], dtype=np.int64)
            for head in range(heads):
                pairs = near[0, head].numpy()[known] * len(tags) + which
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


def _assigned(finder: Finder, sample: Sample) -> Assigned | None:
    """The clusters of the first part of a union that has some."""
    parts = finder.finders if isinstance(finder, Union) else (finder,)
    found = (part.assigned(*part.compared(sample.q, sample.k)) for part in parts)
    return next((each for each in found if each is not None), None)


def _information(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mutual information of cluster and tag, in bits, over the last two dimensions."""
    joint = counts / np.maximum(counts.sum((-1, -2), keepdims=True), 1)
    apart = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    ratio = np.where(joint > 0, joint / np.where(apart > 0, apart, 1), 1)
    return (joint * np.log2(ratio)).sum((-1, -2))
