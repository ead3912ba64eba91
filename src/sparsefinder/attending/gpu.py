"""What every implementation for GPUs refuses."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from ..extras import present
from .call import Call, kernel_refusal

__all__ = ["gpu_refusal", "interpreted"]

# Ampere, the first with asynchronous copies and tensor cores for bfloat16.
LEAST_CAPABILITY = (8, 0)


def interpreted() -> bool:
    """Whether Triton computes on the CPU, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def gpu_refusal(call: Call, *packages: str) -> str | None:
    """Why a call cannot run in Triton, or None."""
    missing = [package for package in packages if not present(package)]
    if missing:
        return f'needs {missing[0]}, which is not installed (pip install "sparsefinder[gpu]")'
    device = call.q.device
    if not interpreted():
        if device.type != "cuda":
            return f"runs on a GPU only, not on {device}"
        if torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
            return f"needs a GPU of compute capability 8.0 or above, which {device} is not"
    if bool((call.alpha <= 1).any()) if isinstance(call.alpha, Tensor) else call.alpha <= 1:
        return "takes no alpha up to 1: softmax has no zeros to leave out"
    return kernel_refusal(call)
