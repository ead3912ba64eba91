"""Recipes: what a run does, from text to report, as YAML that is checked before anything starts.

>>> recipe = load_recipe("recipes/demo-mlm.yaml", ["seed=1", "task.training.steps=500"])
>>> recipe.task.training.steps
500
"""

from .parts import Accuracy, Engine, Fit, Method, Needs, Recipe, Report, Sweep, Timing, Trace
from .reading import dump_recipe, load_recipe
from .sources import BuiltinSource, HubPairs, HubSource, PairFiles, PairSource, TextSource
from .teachers import CausalLM, MaskedLM, Training, Translation

__all__ = [
    "Accuracy", "BuiltinSource", "CausalLM", "Engine", "Fit", "HubPairs", "HubSource", "MaskedLM", "Method", "Needs",
    "PairFiles", "PairSource", "Recipe", "Report", "Sweep", "TextSource", "Timing", "Trace", "Training", "Translation",
    "dump_recipe", "load_recipe",
]  # fmt: skip
