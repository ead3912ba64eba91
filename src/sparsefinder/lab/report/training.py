"""How the teacher learned: its loss by step, on the data it was trained on and on the validation data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..folder import RunFolder
from ..tasks.checkpoints import last_checkpoint, state_of
from .charts import Range, roomy

__all__ = ["TrainingCurves", "training_curves"]

# What the Trainer logs them as, and what readers call them.
NAMES = {"loss": "training", "eval_loss": "validation"}


@dataclass(frozen=True)
class TrainingCurves:
    """Steps and losses, by what they were measured on."""

    curves: Mapping[str, Sequence[tuple[int, float]]]

    @property
    def limits(self) -> tuple[Range, Range]:
        """From where to where steps and losses are drawn."""
        steps, losses = zip(*(one for some in self.curves.values() for one in some), strict=True)
        return (0.0, max(steps) * 1.02), roomy(losses)

    def to_page(self) -> dict[str, Any]:
        return {
            "curves": [
                {"label": name, "steps": [step for step, _ in some], "losses": [loss for _, loss in some]}
                for name, some in self.curves.items()
            ],
            "limits": self.limits,
        }


def training_curves(folder: RunFolder) -> TrainingCurves | None:
    """What the Trainer logged, from the last checkpoint; None where the teacher was taken as it is."""
    last = last_checkpoint(folder / "training")
    if last is None:
        return None
    log = state_of(last)["log_history"]
    found = {
        words: [(row["step"], float(row[name])) for row in log if name in row and math.isfinite(row[name])]
        for name, words in NAMES.items()
    }
    found = {words: some for words, some in found.items() if some}
    return TrainingCurves(found) if found else None
