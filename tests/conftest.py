"""Shapes of tensors are checked at run time in every module but those that check their input themselves."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

CHECKED = [
    "sparsefinder.attending.call",
    "sparsefinder.attending.mask",
    "sparsefinder.attending.native",
    "sparsefinder.attending.portable",
    "sparsefinder.attending.reference",
    "sparsefinder.attending.triton.tiles",
    "sparsefinder.finders",
    "sparsefinder.core.flex",
    "sparsefinder.core.graph",
    "sparsefinder.core.listing",
    "sparsefinder.hf.interface",
    "sparsefinder.core.layout",
    "sparsefinder.learning.learn",
    "sparsefinder.hf.masking",
    "sparsefinder.core.metrics",
    "sparsefinder.learning.moments",
    "sparsefinder.core.pareto",
    "sparsefinder.core.pieces",
    "sparsefinder.learning.projection",
    "sparsefinder.learning.sample",
    "sparsefinder.lab.sweep.masks",
    "sparsefinder.lab.sweep.tally",
    "sparsefinder.learning.triples",
]
install_import_hook(CHECKED, "beartype.beartype")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"
# Kernels for GPUs run in Triton's interpreter where there is none. Triton reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

settings.register_profile(
    "sparsefinder", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("sparsefinder")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
