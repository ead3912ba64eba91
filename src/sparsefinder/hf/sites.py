"""The attention layers of a Hugging Face model, which are its sites.

A site has a kind ("encoder", "decoder" for self-attention under a causal mask, "cross") and a number among the layers
of that kind.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..errors import InputError, check_type
from .attend import KINDS, Attend, Decoding

__all__ = ["chosen_sites", "find_sites", "sites"]

SWITCHED = "one switched by use_entmax(model, alpha=...) or loaded by load_model(...)"


def sites(model: PreTrainedModel) -> dict[str, Attend]:
    """The attention layers of a model that was switched to entmax, by the name of their module."""
    check_type("model", model, nn.Module, SWITCHED)
    found = {
        name: module.sparsefinder
        for name, module in model.named_modules()
        if isinstance(getattr(module, "sparsefinder", None), Attend)
    }
    if not found:
        raise InputError("model", f"{type(model).__name__} with softmax attention", SWITCHED)
    return found


def chosen_sites(model: PreTrainedModel, kinds: Sequence[str] | None, layers: Sequence[int] | None) -> list[Attend]:
    """The sites of some kinds and layers; all of them where it says None."""
    chosen = list(sites(model).values())
    if kinds is not None:
        present, kinds = sorted({attend.kind for attend in chosen}), _listed("kinds", kinds, str)
        for kind in kinds:
            if kind not in present:
                raise InputError("kinds", repr(kind), f"kinds of attention that this model has: {', '.join(present)}")
        chosen = [attend for attend in chosen if attend.kind in kinds]
    if layers is not None:
        most, layers = max((attend.layer for attend in chosen), default=0), _listed("layers", layers, int)
        for layer in layers:
            if isinstance(layer, bool) or layer not in range(most + 1):
                raise InputError("layers", repr(layer), f"layers from 0 to {most}")
        chosen = [attend for attend in chosen if attend.layer in layers]
    return chosen


def _listed(argument: str, given: Any, kind: type) -> list[Any]:
    """What is to be a list: a single one, and a word above all, is not read as one."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = [given] if isinstance(given, kind) else ["encoder"] if kind is str else [0]
        raise InputError(argument, repr(given), f"a list, such as {example!r}")
    return [each.item() if hasattr(each, "item") else each for each in given]


def find_sites(model: PreTrainedModel) -> dict[str, tuple[nn.Module, Attend]]:
    """Every attention module, with its kind and its number among those of its kind."""
    want = "a model of transformers; load_model(...) has one from a path or a name on the hub"
    check_type("model", model, nn.Module, want)
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
