"""Recipes: what a run does, from text to report, as YAML that is checked before anything starts.

>>> recipe = load_recipe("recipes/demo-mlm.yaml", ["seed=1", "task.training.steps=500"])
>>> recipe.task.training.steps
500
"""

from .parts import (
    Accuracy,
    BuiltinSource,
    Fit,
    HubSource,
    MaskedLM,
    Method,
    PairSource,
    Recipe,
    Report,
    Sweep,
    TextSource,
    Timing,
    Trace,
    Training,
    Translation,
)
from .reading import dump_recipe, load_recipe

__all__ = [
    "Accuracy", "BuiltinSource", "Fit", "HubSource", "MaskedLM", "Method", "PairSource", "Recipe", "Report", "Sweep",
    "TextSource", "Timing", "Trace", "Training", "Translation", "dump_recipe", "load_recipe",
]  # fmt: skip
