"""Checkpoints of models with entmax attention, read and written.

>>> model = load_model("bert-base-uncased", alpha=1.5)
>>> save_model(model, "my-teacher")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub import snapshot_download
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from ..errors import InputError
from .interface import register
from .models import Alpha, alpha_of, sites, use_entmax

__all__ = ["load_model", "save_model"]


def load_model(
    name_or_path: str | Path,
    *,
    alpha: Alpha | None = None,
    learn: bool | None = None,
    model_class: type[PreTrainedModel] | None = None,
    backend: str = "auto",
    **kwargs: Any,
) -> PreTrainedModel:
    """Load a checkpoint with entmax attention.

    >>> model = load_model("runs/demo/teacher")               # saved by save_model: its own α
    >>> model = load_model("roberta-base", alpha=1.5)         # trained with softmax: say which α to switch it to

    A checkpoint that says what it was trained with is loaded as that; another `alpha` for it is an error, because a
    model run with the wrong mapping gives plausible nonsense. The class is the one named in the checkpoint's config.
    Other arguments go to `from_pretrained`: dtype=torch.float32, say, to run half-precision weights fast on a CPU.
    """
    config = AutoConfig.from_pretrained(name_or_path)
    saved = getattr(config, "entmax", None)
    if saved is None and alpha is None:
        want = "alpha=1.5 to switch it to entmax: its config does not say what it was trained with"
        raise InputError("alpha", f"none for {name_or_path}", want)
    if saved is not None and alpha is not None and alpha != saved["alpha"]:
        want = f"none, or its own: {name_or_path} was trained with alpha {saved['alpha']}"
        raise InputError("alpha", alpha, f"{want}. To train it on with another, call use_entmax on the loaded model")
    register()
    kind = _class_of(config, model_class)
    with _expecting_learned_alpha(kind):
        model = kind.from_pretrained(name_or_path, **kwargs)
    if saved is None:
        return use_entmax(model, 1.5 if alpha is None else alpha, learn=bool(learn), backend=backend)
    learn = saved["learned"] if learn is None else learn
    use_entmax(model, saved["alpha"], learn=learn, backend=backend)
    if saved["learned"] and learn:
        # A trainer's checkpoint has them as weights; its config still has those of the start.
        model.load_state_dict(_learned_alpha(name_or_path), strict=False)
        model.config.entmax["alpha"] = alpha_of(model)
    return model


def save_model(model: PreTrainedModel, path: str | Path, **kwargs: Any) -> None:
    """Save a model so that `load_model` gives the same one back. Other arguments go to `save_pretrained`."""
    sites(model)
    model.config.entmax = {**model.config.entmax, "alpha": alpha_of(model)}
    model.save_pretrained(path, **kwargs)


@contextmanager
def _expecting_learned_alpha(kind: type[PreTrainedModel]) -> Iterator[None]:
    """Let a class load checkpoints with learned α without a warning about weights it does not know."""
    before = kind._keys_to_ignore_on_load_unexpected
    kind._keys_to_ignore_on_load_unexpected = [*(before or ()), r"entmax_logit$"]
    try:
        yield
    finally:
        kind._keys_to_ignore_on_load_unexpected = before


def _learned_alpha(name_or_path: str | Path) -> dict[str, Tensor]:
    folder = Path(name_or_path)
    if not folder.is_dir():
        folder = Path(snapshot_download(str(name_or_path), allow_patterns="*.safetensors"))
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            found |= {name: tensors.get_tensor(name) for name in tensors.keys() if name.endswith("entmax_logit")}  # noqa: SIM118
    return found


def _class_of(config: PreTrainedConfig, model_class: type[PreTrainedModel] | None) -> type[PreTrainedModel]:
    if model_class is not None:
        return model_class
    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
    raise InputError("model_class", "none", f"a class of transformers: the config names {config.architectures}")
