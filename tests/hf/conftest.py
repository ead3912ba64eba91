"""An oracle for models: their own eager attention, with entmax where softmax was."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from sparsefinder import entmax


@pytest.fixture
def _softmax_is_entmax(monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(scores: Tensor, dim: int = -1, **kwargs: Any) -> Tensor:
        low = torch.finfo(scores.dtype).min / 2
        return entmax(scores.masked_fill(scores < low, -math.inf), 1.5, dim)

    monkeypatch.setattr(torch.nn.functional, "softmax", replaced)
