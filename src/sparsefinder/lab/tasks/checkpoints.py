"""Checkpoints of a training: which of them are complete, and what the Trainer wrote into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...files import read_json, write_text

__all__ = ["best_of", "ended", "last_checkpoint", "mark_complete", "state_of", "steps_in_a_pass"]

# Written into a checkpoint when all else is: the names and sizes of its files.
COMPLETE = "complete.json"


def mark_complete(checkpoint: Path) -> None:
    """Say of a checkpoint that all of it is there."""
    write_text(checkpoint / COMPLETE, json.dumps(_sizes(checkpoint)))


def last_checkpoint(folder: Path) -> Path | None:
    """The last complete checkpoint: not one that was half written, or half deleted, when the process was killed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    return next((one for one in reversed(found) if _is_complete(one)), None)


def state_of(checkpoint: Path) -> dict[str, Any]:
    """How far the training was, and what it had logged."""
    return read_json(checkpoint / "trainer_state.json")


def steps_in_a_pass(folder: Path) -> float | None:
    """How many steps a pass over the data takes, as the last checkpoint counted them; None where there is none."""
    last = last_checkpoint(folder)
    if last is None:
        return None
    state = state_of(last)
    return state["global_step"] / state["epoch"]


def ended(checkpoint: Path) -> bool:
    """Whether the training was over when this was saved: the Trainer itself would go on for another step."""
    state = state_of(checkpoint)
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {})
    stopped = control.get("args", {}).get("should_training_stop", False)
    return bool(stopped or state["global_step"] >= state["max_steps"])


def best_of(checkpoint: Path) -> Path:
    """The best one on the validation data, as of this one."""
    return checkpoint.parent / f"checkpoint-{state_of(checkpoint)['best_global_step']}"


def _sizes(checkpoint: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(checkpoint.iterdir()) if file.is_file()}


def _is_complete(checkpoint: Path) -> bool:
    marker = checkpoint / COMPLETE
    if not marker.is_file():
        return False
    there = _sizes(checkpoint)
    return all(there.get(name) == size for name, size in read_json(marker).items())
