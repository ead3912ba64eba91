"""A script that trained ends in silence, whatever it still holds at its end."""

import subprocess
import sys

import pytest

TRAINED = """
import torch
from sparsefinder import Window, attention

maps = torch.nn.Linear(16, 48)
optimizer = torch.optim.Adam(maps.parameters())
for _ in range(2):
    q, k, v = maps(torch.randn(1, 2, 32, 16)).chunk(3, -1)
    out = attention(q, k, v, {graph}, backend="native")
    loss = out.square().mean() + attention(q, k, v, backend="portable").mean()
    {step}
"""


@pytest.mark.parametrize("step", ["loss.backward(); optimizer.step()", "pass", "loss.backward(retain_graph=True)"])
@pytest.mark.parametrize("graph", ["None", "Window(5)(q, k)"])
def test_nothing_is_said_at_exit(graph: str, step: str) -> None:
    """The last loss and its graph are still there."""
    script = TRAINED.format(graph=graph, step=step)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
