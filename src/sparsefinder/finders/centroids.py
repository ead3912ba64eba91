"""Centroids: made by k-means, and which of them tokens are nearest to or score highest with."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule
from ..errors import InputError
from ..extras import needed

__all__ = ["check_centroids", "cluster", "first_in_common", "highest", "nearest", "ranks", "slots"]


def check_centroids(clusters: int, centroids: Tensor | None) -> None:
    """Raise unless there can be so many clusters, and are if there are any."""
    if not isinstance(clusters, int) or clusters < 1:
        raise InputError("clusters", clusters, "a whole number from 1 upwards")
    if centroids is not None and centroids.shape[1] != clusters:
        raise InputError("centroids", f"{centroids.shape[1]} per head", f"as many as `clusters` says: {clusters}")


def cluster(
    tokens: Float[Tensor, "heads count r"], clusters: int, restarts: int, seed: int = 0
) -> Float[Tensor, "heads clusters r"]:
    """K-means in each head: k-means++, the best of some restarts, 300 iterations at most."""
    if not 1 <= clusters <= tokens.shape[1]:
        raise InputError("clusters", clusters, f"a number from 1 to the {tokens.shape[1]} tokens to be clustered")
    clustering = needed("sklearn.cluster", "hf").KMeans
    fits = [
        clustering(clusters, init="k-means++", n_init=restarts, max_iter=300, random_state=seed).fit(head)
        for head in tokens.float().cpu().numpy()
    ]
    return torch.stack([torch.from_numpy(fit.cluster_centers_) for fit in fits]).float().to(tokens.device)


def nearest(
    tokens: Float[Tensor, "batch heads length r"], centroids: Float[Tensor, "heads clusters r"], count: int
) -> Int[Tensor, "batch heads length count"]:
    """The nearest centroids of each token: −‖x − c‖² / 2 = x·c − ‖c‖² / 2, less what all centroids have in common."""
    tokens = (tokens.float() if tokens.dtype in (torch.float16, torch.bfloat16) else tokens).detach()
    centroids = centroids.to(tokens.dtype)
    offsets = centroids.square().sum(-1) / -2
    return highest(tokens, centroids, offsets, count)


def highest(
    tokens: Float[Tensor, "batch heads length r"],
    centroids: Float[Tensor, "heads clusters r"],
    offsets: Float[Tensor, "heads clusters"],
    count: int,
) -> Int[Tensor, "batch heads length count"]:
    """The centroids with the highest x·c + offset, the highest first: in C++ where it was built."""
    native = compiled.module
    if native is None or tokens.device.type != "cpu" or tokens.dtype != torch.float32 or count > native.MOST_NEAREST:
        return (tokens @ centroids.mT + offsets[:, None]).topk(count, -1).indices
    # The kernel takes several centroids at a time; those that are added have a score that no other is below.
    padding = (0, -centroids.shape[1] % native.CENTROIDS_TOGETHER)
    found = torch.empty((*tokens.shape[:3], count), dtype=torch.long)
    native.nearest(
        capsule(tokens), capsule(pad(centroids, (0, 0, *padding)).contiguous()),
        capsule(pad(offsets, padding, value=native.NOTHING)), capsule(found), torch.get_num_threads(), compiled.plain(),
    )  # fmt: skip
    return found


def ranks(order: Int[Tensor, "*shape count"]) -> Int[Tensor, "*shape count"]:
    """The place of each number in an order of all of them, counted from 1."""
    places = torch.arange(1, order.shape[-1] + 1, device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def first_in_common(
    of_queries: Int[Tensor, "batch heads n clusters"], of_keys: Int[Tensor, "batch heads m clusters"]
) -> Float[Tensor, "batch heads n m"]:
    """The least k such that a query and a key have a cluster in common among the first k of each."""
    least: Tensor | None = None
    for one, two in zip(of_queries.unbind(-1), of_keys.unbind(-1), strict=True):
        later = torch.maximum(one[..., None], two[..., None, :])
        least = later if least is None else torch.minimum(least, later, out=least)
    assert least is not None
    return least.double()


def slots(table: Int[Tensor, "batch heads length slots"], counts: int | Int[Tensor, " heads"]) -> Tensor:
    """A table of the first choices of each token, cut to as many as each head has; −1 is none."""
    if not isinstance(counts, Tensor):
        return table
    place = torch.arange(table.shape[-1], device=table.device)
    return torch.where(place < counts.to(table.device)[:, None, None], table, -1)
