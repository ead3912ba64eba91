"""Tokenizers: of a checkpoint, by name, or byte pair encodings trained on the data of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from accelerate import PartialState
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ...errors import InputError
from ...files import whole_folder

__all__ = ["byte_level", "check_vocabulary", "find_tokenizer", "joint", "load_tokenizer", "text_of"]

SPECIAL = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
MASK = "<mask>"
# All bytes and the special tokens, with some room for merges.
LEAST_BYTE_LEVEL = 300


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    """A tokenizer by path or hub name."""
    try:
        return AutoTokenizer.from_pretrained(str(name))
    except (OSError, ValueError) as error:
        want = "the path or hub name of a tokenizer or of a checkpoint that has one"
        raise InputError("tokenizer", f"{name}: {error}", want) from error


def find_tokenizer(named: str | None, folder: Path, make: Callable[[], PreTrainedTokenizerBase]) -> Path:
    """The path or hub name of the tokenizer to use: the named one, or one that is made in `folder` once."""
    if named is not None:
        return Path(named)
    with PartialState().main_process_first():
        if not folder.is_dir():
            with whole_folder(folder) as new:
                make().save_pretrained(new)
    return folder


def text_of(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    """The text that token numbers stand for, without special tokens."""
    return str(tokenizer.decode(ids, skip_special_tokens=True)).strip()


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Refuse a tokenizer with tokens that the model does not know."""
    if len(tokenizer) > model.config.vocab_size:
        got = f"{len(tokenizer)} tokens for a model of {model.config.vocab_size}"
        raise InputError("tokenizer", got, "one with no more tokens than the model has embeddings")


def byte_level(texts: Iterable[str], vocabulary: int, causal: bool = False) -> PreTrainedTokenizerBase:
    """For language modelling: byte pair encoding over bytes, so that nothing is unknown.

    causal: for one that has nothing hidden, and goes on after what is given: no mask, and no end.
    """
    if vocabulary < LEAST_BYTE_LEVEL:
        raise InputError("vocabulary", vocabulary, f"at least {LEAST_BYTE_LEVEL}: 256 of them are the bytes")
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL["unk"]))
    # With a space before the first word too, it is the same token wherever it stands.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = [*SPECIAL.values(), *([] if causal else [MASK])]
    _train(tokenizer, texts, vocabulary, special, pre_tokenizers.ByteLevel.alphabet())
    first, last = SPECIAL["bos"], SPECIAL["eos"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A" if causal else f"{first} $A {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    masked = {} if causal else {"mask_token": MASK, "cls_token": first, "sep_token": last}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **masked, **_named_tokens())


def joint(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """For translation: one byte pair encoding for both languages, over characters, with an end after each sentence."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL["unk"]))
    # Commas and hyphens are tokens of their own; a ▁ where there was a space lets the text be put together again.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    _train(tokenizer, texts, vocabulary, list(SPECIAL.values()), [])
    last = SPECIAL["eos"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {last}", special_tokens=[(last, tokenizer.token_to_id(last))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_named_tokens())


def _train(
    tokenizer: Tokenizer, texts: Iterable[str], vocabulary: int, special: Sequence[str], alphabet: Sequence[str]
) -> None:
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(special), initial_alphabet=list(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)


def _named_tokens() -> dict[str, str]:
    return {f"{name}_token": token for name, token in SPECIAL.items()}
