"""Tiny recipes of all tasks; run as a program, it trains one and kills itself on the way.

python -m tests.lab.tasks.tiny masked-lm FOLDER 6          killed after step 6
python -m tests.lab.tasks.tiny translation FOLDER 8 save   killed while the checkpoint of step 8 is written
"""

import os
import signal
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from sparsefinder.lab.recipe import CausalLM, MaskedLM, Translation
from sparsefinder.lab.tasks import Task, task
from sparsefinder.lab.tasks.grammar import pairs

TRAINING: dict[str, Any] = {
    "steps": 12, "batch": 4, "accumulate": 2, "every": 4, "learning_rate": 0.002, "schedule": "inverse_sqrt",
    "warmup_steps": 2, "weight_decay": 0.01,
}  # fmt: skip
BERT: dict[str, Any] = {
    "architecture": "BertForMaskedLM", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24,
}  # fmt: skip
MARIAN: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip

LLAMA: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 24,
}  # fmt: skip


def write_text(folder: Path, name: str, start: int, count: int) -> str:
    """A file of English sentences, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [english for english, _ in islice(pairs("de"), start, start + count)]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


def masked_lm(folder: Path, training: dict[str, Any] | None = None, **changes: Any) -> MaskedLM:
    """25 blocks, of which an epoch has three steps and a bit."""
    given = {
        "kind": "masked-lm",
        "data": {"train": write_text(folder, "train.txt", 0, 30), "valid": write_text(folder, "valid.txt", 500, 20)},
        "model": None if "checkpoint" in changes else BERT,
        "vocabulary": 400, "length": 32, "far": 8, "training": {**TRAINING, **(training or {})}, **changes,
    }  # fmt: skip
    return MaskedLM.model_validate(given)


def causal_lm(folder: Path, training: dict[str, Any] | None = None, **changes: Any) -> CausalLM:
    """Blocks of 16 tokens, then of 32: as many tokens in each batch. The first steps are of softmax."""
    given = {
        "kind": "causal-lm",
        "data": {"train": write_text(folder, "train.txt", 0, 30), "valid": write_text(folder, "valid.txt", 500, 20)},
        "model": None if "checkpoint" in changes else LLAMA,
        "vocabulary": 400, "length": 32, "lengths": [16, 32], "shares": [2, 1], "far": 8,
        "training": {**TRAINING, "tokens": 128, "softmax_steps": 3, **(training or {})}, **changes,
    }  # fmt: skip
    return CausalLM.model_validate(given)


def translation(training: dict[str, Any] | None = None, **changes: Any) -> Translation:
    parts = {"train": 26, "valid": 8, "test": 6}
    given = {
        "kind": "translation",
        "data": {part: {"builtin": "numbers-de", "part": part, "count": count} for part, count in parts.items()},
        "model": MARIAN, "vocabulary": 300, "length": 64, "beam": 2, "evaluate": 2,
        "training": {**TRAINING, **(training or {})}, **changes,
    }  # fmt: skip
    return Translation.model_validate(given)


def make(kind: str, folder: Path, **changes: Any) -> Task:
    """The task, with its data in `folder`."""
    if kind == "translation":
        return task(translation(**changes), seed=3)
    return task((masked_lm if kind == "masked-lm" else causal_lm)(folder, **changes), seed=3)


def main() -> None:
    kind, folder, step, *where = sys.argv[1:]
    from sparsefinder.lab.tasks.training import Keeper, OrderedTrainer

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def on_step_end(self: Keeper, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == int(step):
            die()

    def save_rng_state(self: OrderedTrainer, output_dir: str) -> None:
        if self.state.global_step == int(step):
            die()
        super(OrderedTrainer, self)._save_rng_state(output_dir)

    if where:
        OrderedTrainer._save_rng_state = save_rng_state  # type: ignore[method-assign]
    else:
        Keeper.on_step_end = on_step_end  # type: ignore[method-assign]
    make(kind, Path(folder)).train(Path(folder) / "training", Path(folder) / "teacher")


if __name__ == "__main__":
    main()
