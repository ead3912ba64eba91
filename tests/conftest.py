"""Shapes of tensors are checked at run time in every module but those that check their input themselves."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

CHECKED = [
    "sparsefinder.attention.call",
    "sparsefinder.attention.native",
    "sparsefinder.attention.portable",
    "sparsefinder.attention.reference",
    "sparsefinder.finders",
    "sparsefinder.fitted",
    "sparsefinder.graph",
    "sparsefinder.interface",
    "sparsefinder.layout",
    "sparsefinder.learning",
    "sparsefinder.masking",
    "sparsefinder.metrics",
    "sparsefinder.moments",
    "sparsefinder.pareto",
    "sparsefinder.pieces",
    "sparsefinder.projection",
    "sparsefinder.recording",
    "sparsefinder.sample",
    "sparsefinder.sweep.masks",
    "sparsefinder.sweep.tally",
    "sparsefinder.traces",
    "sparsefinder.triples",
]
install_import_hook(CHECKED, "beartype.beartype")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

settings.register_profile(
    "sparsefinder", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("sparsefinder")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
