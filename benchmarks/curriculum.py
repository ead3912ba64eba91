"""Tokens a second of a whole training from scratch, with entmax beside softmax: a causal recipe, shortened.

    python benchmarks/curriculum.py recipes/clm-wikitext2.yaml --steps 120 \\
        --set task.data.train=TRAIN --set task.data.valid=VALID

Both models start from the same fresh weights and learn from the same batches of the recipe's lengths, with its rate,
warm-up and decay, each with its own attention all the way. They take turns at every step, so that a slow moment of
the machine hits both. What entmax costs changes while it learns: so it is summed over the run, and said by length.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, get_scheduler

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder.lab.bench.clock import seconds_of
from sparsefinder.lab.recipe import CausalLM, load_recipe
from sparsefinder.lab.tasks.blocks import cut
from sparsefinder.lab.tasks.data import read_texts
from sparsefinder.lab.tasks.order import Curriculum, Stretch, steps_of_shares
from sparsefinder.lab.tasks.teacher import from_config
from sparsefinder.lab.tasks.tokenizer import byte_level


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    given = parser.parse_args()
    recipe = load_recipe(given.recipe, given.changes)
    if not isinstance(recipe.task, CausalLM):
        parser.error(f"{given.recipe} is of another task than causal-lm")
    task, training = recipe.task, recipe.task.training
    texts = list(read_texts(task.data.train))
    tokenizer = byte_level(texts, task.vocabulary, causal=True)
    lengths = task.lengths or (task.length,)
    blocks: list[Tensor] = []
    stretches: list[Stretch] = []
    for length, steps in zip(lengths, steps_of_shares(given.steps, task.shares or [1.0] * len(lengths)), strict=True):
        rows = cut(texts, tokenizer, length, closed=False).rows.long()
        together = training.batch if training.tokens is None else training.tokens // length
        stretches.append(Stretch(len(blocks), len(rows), together, steps))
        blocks += rows
    made = {"architecture": task.architecture, **(task.model or {})}
    models = [from_config(made, task.alpha, tokenizer, task.length, recipe.seed).train() for _ in range(2)]
    models[0].set_attn_implementation("sdpa")
    warm_up = round(training.warmup_steps * given.steps / training.steps)
    learners = [learner(model, training, given.steps, warm_up) for model in models]
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {given.steps} steps of {given.recipe.name}\n")
    times: dict[int, list[tuple[int, float, float]]] = {}
    losses = [0.0, 0.0]
    for batch in Curriculum(stretches, recipe.seed):
        rows = torch.stack([blocks[place] for place in batch])
        took = [seconds_of(partial(_learn, step, rows, losses, place)) for place, step in enumerate(learners)]
        times.setdefault(rows.shape[1], []).append((rows.numel(), took[0], took[1]))
    print("| tokens in a block | steps | softmax, tokens a second | entmax | entmax to softmax |")
    print("|---|---|---|---|---|")
    for name, some in [*times.items(), ("whole run", [one for part in times.values() for one in part])]:
        tokens, softmax, entmax = (sum(part) for part in zip(*some, strict=True))
        print(f"| {name} | {len(some)} | {tokens / softmax:.0f} | {tokens / entmax:.0f} | {softmax / entmax:.2f} |")
    print(f"\nlast losses: softmax {losses[0]:.3f}, entmax {losses[1]:.3f}")
    print(f"\n{json.dumps(times)}")


def learner(model: PreTrainedModel, training: Any, steps: int, warm_up: int) -> Callable[[Tensor], float]:
    """A step of training on a batch, as the Trainer does it; its loss."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, betas=training.betas, weight_decay=training.weight_decay
    )
    schedule = get_scheduler(training.schedule, optimizer, warm_up, steps)

    def step(rows: Tensor) -> float:
        loss = model(input_ids=rows, labels=rows, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def _learn(step: Callable[[Tensor], float], rows: Tensor, losses: list[float], place: int) -> None:
    losses[place] = step(rows)


if __name__ == "__main__":
    main()
