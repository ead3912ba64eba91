"""Checkpoints of models with entmax attention and of the finders that belong to them, read and written.

>>> model = load_model("bert-base-uncased", alpha=1.5)
>>> save_model(model, "my-teacher", finders=Window(51) | GlobalTokens(1))
>>> model = load_model("my-teacher")  # with its finders at work

The finders are in a folder `finders` beside the weights, as `Sparsefinder.save_pretrained` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from ..describing import card
from ..errors import InputError, check_type
from ..files import folder_at
from ..fitted import CONFIG, FOLDER, TENSORS, Sparsefinder
from ..hub import folder_of, push
from .alphas import Alpha, alpha_of
from .interface import register
from .models import Finders, finders_for, finders_of, sites, use_entmax, use_finders
from .scaling import NAMES

__all__ = ["load_model", "push_model", "save_model"]

# Weights that attention has besides those of the model's class: of α, and of scaling by length.
LEARNED = ("entmax_logit", *NAMES)
# What says where on the hub a checkpoint is, of the arguments of `from_pretrained`.
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "revision", "token")
USE = """
from sparsefinder import finders_of, load_model
model = load_model("{name}")  # its finders are at work; finders=False for attention over all pairs
print(finders_of(model))
model(**inputs)
"""


def load_model(
    name_or_path: str | Path,
    *,
    alpha: Alpha | None = None,
    learn: bool | None = None,
    model_class: type[PreTrainedModel] | None = None,
    finders: bool = True,
    exact: bool = False,
    backend: str = "auto",
    **kwargs: Any,
) -> PreTrainedModel:
    """Load a checkpoint with entmax attention, from a folder or from the hub, with the finders that belong to it.

    >>> model = load_model("runs/demo/teacher")               # saved by save_model: its own α
    >>> model = load_model("roberta-base", alpha=1.5)         # trained with softmax: say which α to switch it to

    A checkpoint that says what it was trained with is loaded as that; another `alpha` for it is an error, because a
    model run with the wrong mapping gives plausible nonsense. The class is the one named in the checkpoint's config.

    finders: switch on for good those that were saved with it, if there are any; `finders_of(model)` has them then.
    False leaves them off: attention over all pairs.
    exact: with finders, use their predictions only as the order of work, and compute the full result.

    Other arguments go to `from_pretrained`: dtype=torch.float32, say, to run half-precision weights fast on a CPU;
    revision, token and cache_dir for the hub.
    """
    options = {name: kwargs[name] for name in HUB_OPTIONS if name in kwargs}
    config = _config_of(name_or_path, options)
    saved = getattr(config, "entmax", None)
    if saved is None and alpha is None:
        want = "alpha=1.5 to switch it to entmax: its config does not say what it was trained with"
        raise InputError("alpha", f"none for {name_or_path}", want)
    if saved is not None and alpha is not None and alpha != saved["alpha"]:
        want = f"none, or its own: {name_or_path} was trained with alpha {saved['alpha']}"
        raise InputError("alpha", alpha, f"{want}. To train it on with another, call use_entmax on the loaded model")
    register()
    kind = _class_of(config, model_class)
    with _expecting_learned(kind):
        model = kind.from_pretrained(name_or_path, **kwargs)
    if saved is None:
        use_entmax(model, 1.5 if alpha is None else alpha, learn=bool(learn), backend=backend)
    else:
        _restore_alpha(model, name_or_path, saved, learn, backend, options)
    found = _finders_in(name_or_path, options) if finders else None
    return model if found is None else use_finders(model, found, exact=exact)


def save_model(model: PreTrainedModel, path: str | Path, *, finders: Finders | None = None, **kwargs: Any) -> None:
    """Save a model and its finders so that `load_model` gives both back.

    >>> save_model(model, "my-teacher", finders=Sparsefinder.fit(traces, "sketch", recall=0.99))

    finders: as `use_finders` takes them; those that are switched on in the model if None. Where it has none, those that
    were saved in this folder before are gone.
    Other arguments go to `save_pretrained`.
    """
    if kwargs.get("push_to_hub"):
        raise InputError("push_to_hub", True, "push_model(model, name), which takes the finders along")
    belonging, folder = _belonging(model, finders), folder_at(path) / FOLDER
    if belonging:
        belonging.save_pretrained(folder)
    else:
        # Finders of an earlier model would be loaded with this one.
        for file in (CONFIG, TENSORS):
            (folder / file).unlink(missing_ok=True)
    model.config.entmax = {**model.config.entmax, "alpha": alpha_of(model)}
    model.save_pretrained(path, **kwargs)


def push_model(
    model: PreTrainedModel, name: str, *, finders: Finders | None = None, text: str | None = None, **options: Any
) -> str:
    """Push a model and its finders to the hub, with a card; returns the address of the commit.

    >>> push_model(model, "me/bert-entmax", finders=fitted, text="WikiText-103")

    finders: as `use_finders` takes them; those that are switched on in the model if None.
    text: what the finders were fitted to, for the card.
    options: `private`, `token`, `branch`, `create_pr`, `commit_message` and what else the hub's own takes.
    """
    belonging = _belonging(model, finders)
    stored = Sparsefinder(belonging.finders, {**belonging.about, **({} if text is None else {"text": text})})
    page = card(stored, {**stored.about, "teacher": f"this model, {name}"}, USE.format(name=name))
    # Finders of an earlier model would be loaded with this one.
    options = {"delete_patterns": f"{FOLDER}/*"} | options
    return push(name, lambda folder: save_model(model, folder, finders=stored), page, **options)


def _belonging(model: PreTrainedModel, finders: Finders | None) -> Sparsefinder:
    """The finders to be saved with a model."""
    every = list(sites(model).values())
    if finders is None:
        return finders_of(model)
    about = finders.about if isinstance(finders, Sparsefinder) else {}
    return Sparsefinder(finders_for(every, finders), about)


def _finders_in(name_or_path: str | Path, options: Mapping[str, Any]) -> Sparsefinder | None:
    """The finders that were saved with a model, if any were."""
    folder = Path(name_or_path) / FOLDER
    if not Path(name_or_path).is_dir():
        try:
            files = [hf_hub_download(str(name_or_path), f"{FOLDER}/{file}", **options) for file in (CONFIG, TENSORS)]
        except EntryNotFoundError:
            # Also where the hub is out of reach and they were not in the cache with the weights.
            return None
        folder = Path(files[0]).parent
    return Sparsefinder.from_pretrained(folder) if (folder / CONFIG).is_file() else None


def _restore_alpha(
    model: PreTrainedModel,
    name_or_path: str | Path,
    saved: Mapping[str, Any],
    learn: bool | None,
    backend: str,
    options: Mapping[str, Any],
) -> None:
    """Switch a model to the α that it was trained with."""
    learn = saved["learned"] if learn is None else learn
    # Checkpoints from before there was scaling do not say that there is none.
    scaled = saved.get("scaled", False)
    use_entmax(model, saved["alpha"], learn=learn, scaled=scaled, backend=backend)
    if scaled or (saved["learned"] and learn):
        # A trainer's checkpoint has them as weights; its config still has those of the start.
        model.load_state_dict(_learned(name_or_path, options), strict=False)
        model.config.entmax["alpha"] = alpha_of(model)


@contextmanager
def _expecting_learned(kind: type[PreTrainedModel]) -> Iterator[None]:
    """Let a class load checkpoints with what attention learned without a warning about weights it does not know."""
    before = kind._keys_to_ignore_on_load_unexpected
    kind._keys_to_ignore_on_load_unexpected = [*(before or ()), *(rf"{name}$" for name in LEARNED)]
    try:
        yield
    finally:
        kind._keys_to_ignore_on_load_unexpected = before


def _learned(name_or_path: str | Path, options: Mapping[str, Any]) -> dict[str, Tensor]:
    folder = folder_of(name_or_path, ["*.safetensors"], "a folder with a model, or its name on the hub", **options)
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            found |= {name: tensors.get_tensor(name) for name in tensors.keys() if name.endswith(LEARNED)}  # noqa: SIM118
    return found


def _config_of(name_or_path: str | Path, options: Mapping[str, Any]) -> PreTrainedConfig:
    want = "a folder that save_model or save_pretrained wrote, or the name of a model on the hub"
    check_type("name_or_path", name_or_path, (str, Path), want)
    folder = Path(name_or_path)
    if folder.is_file() or (folder.is_dir() and not (folder / "config.json").is_file()):
        got = f"{name_or_path}, which is {'a file' if folder.is_file() else 'a folder without config.json'}"
        raise InputError("name_or_path", got, want)
    try:
        return AutoConfig.from_pretrained(name_or_path, **options)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        got = f"{name_or_path}, which is no folder" if not folder.is_dir() else str(name_or_path)
        raise InputError("name_or_path", f"{got}: {reason}", want) from error


def _class_of(config: PreTrainedConfig, model_class: type[PreTrainedModel] | None) -> type[PreTrainedModel]:
    if model_class is not None:
        if not (isinstance(model_class, type) and hasattr(model_class, "from_pretrained")):
            raise InputError("model_class", repr(model_class), "a class of transformers, such as BertForMaskedLM")
        return model_class
    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
    raise InputError("model_class", "none", f"a class of transformers: the config names {config.architectures}")
