"""Where a teacher starts (a checkpoint, or a config and fresh weights) and how it is written when it is trained."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import PartialState
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase, set_seed

from ...errors import InputError
from ...files import whole_folder, write_text
from ...hf.checkpoints import load_model, save_model
from ...hf.models import alpha_of, use_entmax
from .base import Score, described

__all__ = ["counts_tokens", "from_checkpoint", "from_config", "write_teacher"]

SPECIAL = ("pad", "bos", "eos", "cls", "sep", "mask")
POSITIONS = "max_position_embeddings"
HEADS = ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads")


def from_checkpoint(name: str, alpha: float, auto: Any, trained_on: bool = False, **changes: Any) -> PreTrainedModel:
    """A checkpoint with entmax attention, as the class that `auto` (AutoModelForMaskedLM, say) has for it.

    Its weights become float32, whatever they were saved in: small updates vanish in half precision, and a CPU is slow
    with it.
    trained_on: training follows, so that it may go on with another α than it has: from softmax to 1.5, say.
    changes: entries of its config to change, where it has them.
    """
    try:
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError("checkpoint", f"{name}: {error}", "the path or hub name of a model") from error
    if type(config) not in auto._model_mapping:
        raise InputError("checkpoint", f"{name}, a {config.model_type}", f"one that {auto.__name__} knows")
    changes = {key: value for key, value in changes.items() if hasattr(config, key)}
    kind = auto._model_mapping[type(config)]
    own = trained_on and getattr(config, "entmax", None) is not None
    # A teacher attends to all pairs, also where finders were saved with it.
    model = load_model(
        name, alpha=None if own else alpha, model_class=kind, finders=False, dtype=torch.float32, **changes
    )
    return use_entmax(model, alpha) if own and alpha_of(model) != alpha else model


def from_config(
    given: dict[str, Any], alpha: float, tokenizer: PreTrainedTokenizerBase, length: int, seed: int, **settings: Any
) -> PreTrainedModel:
    """A model with fresh weights: `architecture` names its class, the other keys are of its config.

    settings: entries of its config, where it has them, unless `given` says otherwise.
    """
    wanted = dict(given)
    name = wanted.pop("architecture")
    kind = getattr(transformers, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
        near = difflib.get_close_matches(str(name), dir(transformers), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError("model.architecture", f"{name}{hint}", "a model class of transformers, like BertForMaskedLM")
    config_class: Any = kind.config_class
    known = {*config_class().to_dict(), *config_class.attribute_map}
    for key in wanted:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InputError("model", f"the key {key}{hint}", f"keys of {config_class.__name__}")
    if POSITIONS in known:
        # Some families count from the number of the padding token.
        wanted.setdefault(POSITIONS, length + 8)
        if wanted[POSITIONS] < length:
            raise InputError(f"model.{POSITIONS}", wanted[POSITIONS], f"at least the task's length, {length}")
    tokens = {f"{token}_token_id": getattr(tokenizer, f"{token}_token_id") for token in SPECIAL}
    tokens = {key: number for key, number in tokens.items() if number is not None and key in known}
    settings = {key: value for key, value in settings.items() if key in known}
    set_seed(seed)
    config = config_class(**{"vocab_size": len(tokenizer), **tokens, **settings, **wanted})
    _check_heads(config)
    return use_entmax(kind(config), alpha)


def _check_heads(config: Any) -> None:
    """Heads share the width evenly, unless the config says how wide one is."""
    width = getattr(config, "hidden_size", None)
    for key in HEADS:
        heads = getattr(config, key, None)
        if width is None or heads is None or getattr(config, "head_dim", None) is not None:
            continue
        if heads < 1 or width % heads:
            raise InputError(f"model.{key}", heads, f"a divisor of the model's width, {width}")


def counts_tokens(model: PreTrainedModel) -> bool:
    """Whether a model's loss is a sum over the tokens of all batches of a step, divided by their number.

    Others have the mean of each batch, whatever they are told (BERT, RoBERTa): the Trainer takes them for the former,
    and would add those means up over `accumulate` and over processes.
    """
    return "self.loss_function(" in inspect.getsource(type(model).forward)


def write_teacher(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, score: Callable[[], Score]
) -> None:
    """Score the model and write it, its tokenizer and the score, all at once: the first process for all."""
    if PartialState().is_main_process:
        about = described(score(), model.config.entmax["alpha"])
        with whole_folder(folder) as new:
            save_model(model, new)
            tokenizer.save_pretrained(new)
            write_text(new / "score.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    PartialState().wait_for_everyone()
