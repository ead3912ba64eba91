"""The α of a model's attention layers: one number, or by kind, layer and head; fixed or learned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ..errors import InputError
from .attend import Attend
from .sites import sites

__all__ = ["Alpha", "alpha_of", "alphas_for", "set_alpha"]

Alpha = float | Mapping[str, Any]


def alphas_for(alpha: Alpha, attends: Sequence[Attend], learn: bool) -> list[float | list[float]]:
    """The α of each layer: one number, or one per head."""
    layers = Counter(attend.kind for attend in attends)
    by_kind = {kind: _plain(given) for kind, given in alpha.items()} if isinstance(alpha, Mapping) else {}
    for kind, given in by_kind.items():
        if kind not in layers:
            want = f"kinds of attention that this model has: {', '.join(sorted(layers))}"
            raise InputError("alpha", f"the kind {kind!r}", want)
        if isinstance(given, list) and len(given) != layers[kind]:
            want = f"one for each {kind} layer: {layers[kind]}"
            raise InputError("alpha", f"{len(given)} values for {kind} layers", want)
    found = []
    for attend in attends:
        given = by_kind.get(attend.kind, 1.5) if isinstance(alpha, Mapping) else _plain(alpha)
        own = given[attend.layer] if isinstance(alpha, Mapping) and isinstance(given, list) else given
        found.append(_checked(own, attend, learn))
    return found


def _plain(given: Any) -> Any:
    """Tensors and arrays as numbers and lists."""
    given = given.tolist() if hasattr(given, "tolist") else given
    return [_plain(each) for each in given] if isinstance(given, list | tuple) else given


def _checked(alpha: Any, attend: Attend, learn: bool) -> float | list[float]:
    values = alpha if isinstance(alpha, list) else [alpha]
    if len(values) not in (1, attend.heads):
        want = f"one number, or one for each of {attend.heads} heads"
        raise InputError("alpha", f"{len(values)} numbers for {attend.name}", want)
    if not all(type(each) in (int, float) and 1 <= each < math.inf for each in values):
        raise InputError("alpha", repr(alpha), "numbers from 1 (softmax) upwards, such as 1.5")
    if learn and not all(1 < each < 2 for each in values):
        raise InputError("alpha", alpha, "a start between 1 and 2, both excluded, where it is learned")
    return [float(each) for each in values] if isinstance(alpha, list) else float(alpha)


def set_alpha(module: nn.Module, attend: Attend, alpha: float | list[float], learn: bool) -> None:
    """Give one attention layer its α."""
    for old in ("entmax_logit", "entmax_alpha"):
        if hasattr(module, old):
            delattr(module, old)
    if not learn and isinstance(alpha, float):
        attend.alpha = alpha
        return
    parameter = next(module.parameters())
    values = torch.as_tensor(alpha, dtype=torch.float32, device=parameter.device).expand(attend.heads).clone()
    if learn:
        module.register_parameter("entmax_logit", nn.Parameter(torch.logit(values - 1)))
    else:
        module.register_buffer("entmax_alpha", values, persistent=False)


def alpha_of(model: PreTrainedModel) -> float | dict[str, list[Any]]:
    """α as `use_entmax` takes it: one number if it is the same everywhere."""
    values: dict[str, list[Any]] = {}
    for name, attend in sites(model).items():
        alpha = attend.alpha_of(model.get_submodule(name))
        values.setdefault(attend.kind, []).append(alpha if isinstance(alpha, float) else alpha.tolist())
    every = [alpha for kind in values.values() for alpha in kind]
    return every[0] if isinstance(every[0], float) and all(alpha == every[0] for alpha in every) else values
