"""A training as it is shown: its steps and losses; and stopped where the loss is no number any more."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ...errors import InputError, SparsefinderError
from ..progress import Steps, steps

__all__ = ["TrainingError", "Watching"]

ADVICE = "A lower task.training.learning_rate, more warmup_steps or a smaller clip may help; checkpoints are kept."


class TrainingError(SparsefinderError):
    """A training that leads nowhere."""


class Watching(TrainerCallback):
    """Shows how far a training is, from the step that it begins with; the display ends with the block."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._stack = ExitStack()
        self._bar: Steps | None = None

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        self._stack.__exit__(kind, error, trace)
        if isinstance(error, InputError) and "NaN" in str(error):
            # Attention refuses it before a loss is heard of.
            step = 0 if self._bar is None else self._bar.done
            raise TrainingError(f"training: the model's scores are NaN after step {step}. {ADVICE}") from error
        return None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # One process of those that train together speaks for all.
        if state.is_world_process_zero:
            self._bar = self._stack.enter_context(steps("training", state.max_steps, "step", self.first))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.done)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        names = {"loss": "loss", "eval_loss": "validation"}
        losses = {words: float(logs[name]) for name, words in names.items() if name in (logs or {})}  # type: ignore[index]
        for words, value in losses.items():
            if not math.isfinite(value):
                loss = "loss" if words == "loss" else "validation loss"
                got = "NaN" if math.isnan(value) else "infinite"
                raise TrainingError(f"training: the {loss} is {got} at step {state.global_step}. {ADVICE}")
        if self._bar is not None:
            self._bar.update(0, **losses)
