"""Clusters and parts of speech: how often each tag falls into each cluster of a finder, by queries and keys.

As in the paper, over all of the task's validation text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...finders import Finder, Union
from ...finders.base import Assigned
from ...traces.store import Site
from ..tasks import Tokens
from .encoding import deflated
from .speech import NoTaggerError, Tagger, spans
from .validation import Vectors

__all__ = ["ClusterTags", "cluster_tags"]

SIDES = ("queries", "keys")
# The tags of the queries and of the keys of a sequence.
Sides = tuple[list[str | None], list[str | None]]


@dataclass(frozen=True, eq=False)
class ClusterTags:
    """Counts of one finder: for each layer an array [heads, side, cluster, tag], over so many sequences."""

    finder: str
    tags: Sequence[str]
    counts: Mapping[Site, NDArray[np.int64]]
    sequences: int

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
    tokens: Sequence[Mapping[str, Tokens]],
    vectors: Iterable[Mapping[Site, Vectors]],
    finders: Mapping[str, Mapping[Site, Finder]],
    tag: Tagger,
) -> list[ClusterTags]:
    """The counts of every finder that has clusters, over sequences of a text.

    tokens: of each sequence, what its queries and keys stand for, by kind of attention.
    vectors: of each sequence, its queries and keys in every layer.
    """
    tagged = [{kind: _tags(one, tag) for kind, one in by_kind.items()} for by_kind in tokens]
    tags = sorted({one for by_kind in tagged for sides in by_kind.values() for side in sides for one in side if one})
    if not tags:
        raise NoTaggerError("The pipeline gave no parts of speech for the text of this run: it may lack a tagger.")
    number = {tag: place for place, tag in enumerate(tags)}
    counts: dict[str, dict[Site, NDArray[np.int64]]] = {label: {} for label in finders}
    for by_kind, layers in zip(tagged, vectors, strict=True):
        for label, by_site in finders.items():
            for site, finder in by_site.items():
                found = _assigned(finder, *layers[site]) if site in layers else None
                if found is not None:
                    counted = _count(found, by_kind[site[0]], number)
                    counts[label][site] = counts[label].get(site, 0) + counted
    return [ClusterTags(label, tags, each, len(tokens)) for label, each in counts.items() if each]


def _count(found: Assigned, sides: Sides, number: Mapping[str, int]) -> NDArray[np.int64]:
    """How often each tag is in each cluster, in one sequence: [heads, side, cluster, tag]."""
    *by_side, clusters = found
    heads = by_side[0].shape[1]
    counts = np.zeros((heads, 2, clusters, len(number)), dtype=np.int64)
    for side, (near, names) in enumerate(zip(by_side, sides, strict=True)):
        known = np.array([place for place, name in enumerate(names) if name is not None], dtype=np.int64)
        which = np.array([number[name] for name in names if name is not None], dtype=np.int64)
        for head in range(heads):
            pairs = near[0, head].numpy()[known] * len(number) + which
            counts[head, side] = np.bincount(pairs, minlength=clusters * len(number)).reshape(clusters, -1)
    return counts


def _tags(tokens: Tokens, tag: Tagger) -> Sides:
    """The tags of the queries and of the keys."""
    of_characters = tag(tokens.text)
    queries, keys = (
        [None if place is None else of_characters[place] for place in spans(some, tokens.text)]
        for some in (tokens.queries, tokens.keys)
    )
    return queries, keys


def _assigned(finder: Finder, q: Tensor, k: Tensor) -> Assigned | None:
    """The clusters of the first part of a union that has some."""
    parts = finder.finders if isinstance(finder, Union) else (finder,)
    found = (part.assigned(*part.compared(q, k)) for part in parts)
    return next((each for each in found if each is not None), None)


def _information(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mutual information of cluster and tag, in bits, over the last two dimensions."""
    joint = counts / np.maximum(counts.sum((-1, -2), keepdims=True), 1)
    apart = joint.sum(-1, keepdims=True) * joint.sum(-2, keepdims=True)
    ratio = np.where(joint > 0, joint / np.where(apart > 0, apart, 1), 1)
    return (joint * np.log2(ratio)).sum((-1, -2))
