"""The attention layers of a Hugging Face model, which are its sites.

A site has a kind ("encoder", "decoder" for self-attention under a causal mask, "cross") and a number among the layers
of that kind.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..errors import InputError
from .attend import KINDS, Attend, Decoding

__all__ = ["chosen_sites", "find_sites", "sites"]


def sites(model: PreTrainedModel) -> dict[str, Attend]:
    """The attention layers of a model that was switched to entmax, by the name of their module."""
    found = {
        name: module.sparsefinder
        for name, module in model.named_modules()
        if isinstance(getattr(module, "sparsefinder", None), Attend)
    }
    if not found:
        want = "one switched by use_entmax(model, alpha=...) or loaded by load_model(...)"
        raise InputError("model", f"{type(model).__name__} with softmax attention", want)
    return found


def chosen_sites(model: PreTrainedModel, kinds: Sequence[str] | None, layers: Sequence[int] | None) -> list[Attend]:
    """The sites of some kinds and layers; all of them where it says None."""
    every = list(sites(model).values())
    present = sorted({attend.kind for attend in every})
    for kind in kinds or ():
        if kind not in present:
            raise InputError("kinds", kind, f"kinds of attention that this model has: {', '.join(present)}")
    most = max(attend.layer for attend in every)
    for layer in layers or ():
        if not 0 <= layer <= most:
            raise InputError("layers", layer, f"layers from 0 to {most}")
    return [
        attend
        for attend in every
        if (kinds is None or attend.kind in kinds) and (layers is None or attend.layer in layers)
    ]


def find_sites(model: PreTrainedModel) -> dict[str, tuple[nn.Module, Attend]]:
    """Every attention module, with its kind and its number among those of its kind."""
    found: dict[str, tuple[nn.Module, Attend]] = {}
    counts, decoding = dict.fromkeys(KINDS, 0), Decoding()
    for name, module in model.named_modules():
        if not _uses_interface(type(module).forward):
            continue
        kind = _kind(name, module)
        found[name] = module, Attend(kind, counts[kind], _heads(name, module), None, decoding)
        counts[kind] += 1
    if not found or not model._can_set_attn_implementation():
        got = f"{type(model).__name__}, whose attention does not go through transformers' AttentionInterface"
        raise InputError("model", got, "one that does: BERT, RoBERTa, ModernBERT, Marian, BART, T5, GPT-2, Llama, …")
    return found


@cache
def _uses_interface(forward: Callable[..., Any]) -> bool:
    try:
        return "ALL_ATTENTION_FUNCTIONS" in inspect.getsource(forward)
    except (OSError, TypeError):
        return False


def _kind(name: str, module: nn.Module) -> str:
    # Marian and BART use one class for all three and T5 for two, so the place in the model has to tell.
    where = f"{name.rpartition('.')[2]} {name.rpartition('.')[0].rpartition('.')[2]} {type(module).__name__}"
    if getattr(module, "is_cross_attention", False) or re.search("cross|encoder_attn|encdec", where, re.IGNORECASE):
        return "cross"
    return "decoder" if getattr(module, "is_causal", False) else "encoder"


def _heads(name: str, module: nn.Module) -> int:
    for owner in (module, getattr(module, "config", None)):
        for attribute in ("num_heads", "num_attention_heads", "n_heads"):
            heads = getattr(owner, attribute, None)
            if isinstance(heads, int):
                return heads
    raise InputError("model", f"{type(module).__name__} at {name}", "an attention module that says its number of heads")
