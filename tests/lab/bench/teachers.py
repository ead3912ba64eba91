"""Tiny teachers to be benchmarked: a run of either task, and a saved model with grouped keys and a text."""

import re
from pathlib import Path
from typing import Any

import yaml
from transformers import LlamaConfig, LlamaForCausalLM

from sparsefinder import save_model, use_entmax
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.lab.tasks.tokenizer import byte_level

# With weights so large that attention is sparse from the start, and that need no training.
BERT: dict[str, Any] = {
    "architecture": "BertForMaskedLM", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 48, "initializer_range": 1.0,
}  # fmt: skip
MARIAN: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "init_std": 1.0, "max_position_embeddings": 32,
}  # fmt: skip
LENGTH, REACH = 24, 64
WORDS = re.findall(r"\w+", "the cat and a dog saw one big red house near two small green trees by old blue water")


def text(path: Path, lines: int) -> str:
    picks = [[WORDS[(line * 7 + place * place) % len(WORDS)] for place in range(9)] for line in range(lines)]
    path.write_text("".join(" ".join(pick) + ".\n" for pick in picks))
    return str(path)


def run_folder(path: Path, kind: str = "masked-lm", until: str = "trace") -> RunFolder:
    """A run with a teacher and its traces."""
    training = {"steps": 0, "batch": 4}
    task: dict[str, Any] = {"kind": kind, "vocabulary": 300, "length": LENGTH, "training": training, "evaluate": 2}
    if kind == "masked-lm":
        task |= {"data": {"train": text(path / "train.txt", 60), "valid": text(path / "valid.txt", 40)}, "model": BERT}
    else:
        pair = [text(path / "a.en", 40), text(path / "a.de", 40)]
        task |= {"data": {"train": pair, "valid": pair, "test": pair}, "model": MARIAN, "beam": 1}
    given = {"name": "tiny", "task": task, "trace": {"train": 8, "valid": 3}, "fit": {"restarts": 1}}
    given["sweep"] = {"methods": [{"method": "distance", "t": 1.0}], "processes": 1}
    (path / "tiny.yaml").write_text(yaml.safe_dump(given))
    return run(load_recipe(path / "tiny.yaml"), path / "runs", until, say=lambda line: None)


def saved_model(path: Path) -> tuple[Path, Path]:
    """A causal model whose four heads share two heads of keys, and a text."""
    written = Path(text(path / "text.txt", 120))
    tokenizer = byte_level(written.read_text().splitlines(), 300)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=REACH, initializer_range=0.5, pad_token_id=0, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    save_model(use_entmax(LlamaForCausalLM(config)), path / "causal")
    tokenizer.save_pretrained(path / "causal")
    return path / "causal", written
