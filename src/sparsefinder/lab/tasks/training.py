"""Training of a teacher by Hugging Face's Trainer, the same for all tasks: seeded, and resumed where it was killed.

A resumed training ends with the weights of an undisturbed one. For that, the order of the data depends on the seed and
the epoch alone, collators draw from generators of their own (see `generator_for`), the Trainer restores dropout's, and
a checkpoint counts only once it is complete.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.integrations.integration_utils import TensorBoardCallback

from ...errors import InputError
from ...files import DiskError
from ...hf.checkpoints import load_model
from ...hf.interface import NAME
from ..recipe import Training
from .blocks import IGNORED
from .checkpoints import best_of, ended, last_checkpoint, mark_complete, state_of
from .logits import logits_of
from .order import Curriculum, Order
from .teacher import counts_tokens
from .watching import Watching

__all__ = ["Example", "Examples", "fit", "generator_for"]

# The last ones are kept: one may be half written and one half deleted when the process is killed.
KEPT = 3

# What the model takes, by name: token numbers, mostly.
Example = Mapping[str, Any]
Collate = Callable[[list[Example]], dict[str, Tensor]]


class Examples(Dataset[Example]):
    """Examples in memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> Example:
        return self.examples[place]


class Keeper(TrainerCallback):
    """Tells the order of the data which epoch it is, and marks checkpoints that are complete."""

    def __init__(self, order: Order | Curriculum) -> None:
        self.order = order

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.order.epoch = int(state.epoch or 0)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            checkpoint = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            mark_complete(checkpoint)


class FirstSoftmax(TrainerCallback):
    """Has a model attend with softmax for the first steps. Which is used follows from the step alone, as in a resumed
    training; a checkpoint says entmax in any case.
    """

    def __init__(self, model: PreTrainedModel, steps: int) -> None:
        self.model, self.steps = model, steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        wanted = "sdpa" if state.global_step < self.steps else NAME
        if self.model.config._attn_implementation != wanted:
            self.model.set_attn_implementation(wanted)


class OrderedTrainer(Trainer):
    """The Trainer, with our batches of the data."""

    order: Order | Curriculum
    # Logits are wanted only where there is a label: see `compute_loss`.
    few_labels = False

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The model's own loss; where few tokens have labels, without the logits of the others."""
        if not self.few_labels:
            return super().compute_loss(model, inputs, *args, **kwargs)
        asked = inputs["labels"] != IGNORED
        assert self.model is not None
        with logits_of(self.model, asked) as alone:
            few = {**inputs, "labels": inputs["labels"][asked]} if alone else inputs
            return super().compute_loss(model, few, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Example]:
        assert self.train_dataset is not None
        pin = self.args.dataloader_pin_memory
        batches = DataLoader(
            self.train_dataset, batch_sampler=self.order, collate_fn=self.data_collator, pin_memory=pin
        )
        # As the Trainer's own are prepared, but for one process: the order has our share of the batches already, and
        # to share batches of several sizes is nothing that accelerate does.
        return prepare_data_loader(batches, self.args.device, num_processes=1, process_index=0, put_on_device=True)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Weights that are tied to others, or computed, are never in a checkpoint: no need to warn of them."""
        model: Any = self.model
        never = {*model.all_tied_weights_keys, *(model._keys_to_ignore_on_save or ())}
        load_result.missing_keys[:] = [name for name in load_result.missing_keys if name not in never]
        super()._issue_warnings_after_load(load_result)


def fit(
    model: PreTrainedModel,
    folder: Path,
    training: Training,
    seed: int,
    device: torch.device,
    *,
    train: Sequence[Example],
    valid: Sequence[Example],
    collate: Collate,
    label_smoothing: float = 0.0,
    few_labels: bool = False,
    curriculum: Callable[[tuple[int, int]], Curriculum] | None = None,
) -> PreTrainedModel:
    """Train a model with checkpoints in `folder`, going on from the last complete one, and return the trained model.

    few_labels: most tokens have none (masked language modelling), and the labels of a batch are those of its tokens.
    curriculum: the order of the examples, if they come in stretches, for a process out of several.
    With `training.patience`, the model returned is the best one on `valid`, else the last one.
    """
    if not training.changes_the_model:
        return model
    last = last_checkpoint(folder)
    if last is None or not ended(last):
        order = _order(train, training, seed) if curriculum is None else curriculum(_share())
        trainer = OrderedTrainer(
            model,
            _arguments(training, folder, seed, device, label_smoothing),
            data_collator=collate,
            train_dataset=Examples(train),
            eval_dataset=Examples(valid),
            callbacks=[Keeper(order), *_callbacks(model, training, folder)],
        )
        trainer.model_accepts_loss_kwargs &= counts_tokens(model)
        # Ours says how far it is; the Trainer's own prints dictionaries.
        trainer.remove_callback(PrinterCallback)
        trainer.order, trainer.few_labels = order, few_labels
        try:
            with Watching(0 if last is None else state_of(last)["global_step"]) as watching:
                trainer.add_callback(watching)
                trainer.train(resume_from_checkpoint=None if last is None else str(last))
        except KeyboardInterrupt as stopped:
            last = last_checkpoint(folder)
            stopped.add_note("it begins anew" if last is None else f"it goes on from {last.name.replace('-', ' ')}")
            raise
        except (OSError, RuntimeError, SafetensorError) as error:
            if _disk_is_full(error):
                message = f"A checkpoint in {folder} could not be written: the disk is full. Earlier ones are intact; "
                raise DiskError(message + "when there is room, the same command goes on from the last.") from error
            raise
        # Other processes of the same training may be here before the first one has said that all is saved.
        PartialState().wait_for_everyone()
        last = last_checkpoint(folder)
    assert last is not None, "a training that ended has saved its last step"
    return load_model(best_of(last) if training.patience else last)


def _order(train: Sequence[Example], training: Training, seed: int) -> Order:
    # By the source; where tokens count, by the longer of both sides.
    sides = ("input_ids",) if training.tokens is None else ("input_ids", "labels")
    lengths = [max(len(example[side]) for side in sides if side in example) for example in train]
    return Order(lengths, training.batch, seed, training.tokens, _share())


def generator_for(seed: int, *batch: Tensor) -> torch.Generator:
    """A generator that depends on the seed and on a batch's content alone, so that a resumed training draws the same.

    Batches, or the examples in them, come in another order in each epoch, so what is drawn for an example differs.
    """
    state = seed & 0xFFFF_FFFF
    for one in batch:
        state = zlib.crc32(one.contiguous().numpy().tobytes(), state)
    return torch.Generator().manual_seed(state)


def _share() -> tuple[int, int]:
    """Which of the processes that train together this is, and how many they are."""
    return PartialState().process_index, PartialState().num_processes


def _arguments(
    training: Training, folder: Path, seed: int, device: torch.device, label_smoothing: float
) -> TrainingArguments:
    constant = training.schedule == "constant" and training.warmup_steps > 0
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=training.steps if training.epochs is None else -1,
        num_train_epochs=training.epochs or 1,
        per_device_train_batch_size=training.batch,
        per_device_eval_batch_size=training.batch,
        gradient_accumulation_steps=training.accumulate,
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant_with_warmup" if constant else training.schedule,
        warmup_steps=training.warmup_steps,
        weight_decay=training.weight_decay,
        adam_beta1=training.betas[0],
        adam_beta2=training.betas[1],
        adam_epsilon=training.epsilon,
        max_grad_norm=training.clip,
        label_smoothing_factor=label_smoothing,
        logging_steps=max(1, training.every // 5),
        eval_strategy="steps",
        eval_steps=training.every,
        save_strategy="steps",
        save_steps=training.every,
        save_total_limit=KEPT,
        # Of an evaluation only the loss is looked at, and logits are large.
        prediction_loss_only=True,
        load_best_model_at_end=training.patience is not None,
        metric_for_best_model="loss" if training.patience else None,
        greater_is_better=False if training.patience else None,
        restore_callback_states_from_checkpoint=True,
        bf16=training.precision == "bfloat16",
        use_cpu=device.type == "cpu",
        disable_tqdm=True,
        # A loss that is no number ends the training, and is not filtered out of what is said of it.
        logging_nan_inf_filter=False,
        report_to=[name for name in training.log_to if name != "tensorboard"] or "none",
        remove_unused_columns=False,
        dataloader_pin_memory=device.type == "cuda",
        seed=seed,
        data_seed=seed,
    )


def _callbacks(model: PreTrainedModel, training: Training, folder: Path) -> list[TrainerCallback]:
    found: list[TrainerCallback] = []
    if training.softmax_steps:
        found.append(FirstSoftmax(model, training.softmax_steps))
    if training.patience:
        found.append(EarlyStoppingCallback(training.patience))
    if "tensorboard" in training.log_to:
        # The Trainer would write to a folder of its own choice, wherever the command was started.
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("log_to", "tensorboard", "pip install 'sparsefinder[logging]' first") from error
        found.append(TensorBoardCallback(SummaryWriter(str(folder / "logs"))))
    return found


def _disk_is_full(error: Exception) -> bool:
    # Torch and safetensors write from C++ and Rust, and say it in words.
    return any(words in str(error) for words in ("No space left", "PytorchStreamWriter", "disk quota"))
