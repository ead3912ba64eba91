"""The hub, played by a server on this machine: finders and models pushed there with a card, and loaded by name.

What is pushed and loaded runs in another process, because the endpoint and being offline are read when the hub's
package is imported.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .loopback_hub import Hub, serving

ROOT = Path(__file__).parents[2]

SETTING_UP = """
import torch
from sparsefinder import *
from tests.tiny_models import make, run, words
torch.manual_seed(0)
ids = words(2, 9)
"""
ABOUT = """
about = {"method": "window", "settings": {"size": 3}, "recall": 0.9, "traces": "5f2c",
         "sites": [{"kind": "encoder", "layer": 0, "recall": [0.91, 0.97], "sparsity": [0.7, 0.8]}]}
fitted = Sparsefinder({("encoder", 0): Window(3) | GlobalTokens(2), ("encoder", 1): Window(5)}, about)
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as hub:
        yield hub


def python(hub: Hub, home: Path, code: str, **more: str) -> str:
    """Run code that thinks the hub is where ours is."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {
        "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home), "HF_TOKEN": "nobody",
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SETTING_UP + code], capture_output=True, text=True, check=False, cwd=ROOT,
        env=environment | more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def page(content: bytes) -> tuple[dict[str, object], str]:
    """The metadata and the text of a card."""
    _, metadata, text = content.decode().split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_finders_go_to_the_hub_and_come_back(hub: Hub, tmp_path: Path) -> None:
    load = """
again = Sparsefinder.from_pretrained("me/finders")
assert dict(again) == dict(fitted)
assert again.about == {**about, "teacher": "me/bert", "text": "WikiText-103"}, again.about
"""
    push = """
address = fitted.push_to_hub("me/finders", teacher="me/bert", text="WikiText-103", private=True)
assert address.startswith("http")
for wrong in ("me/nothing", "no/such/folder"):
    try:
        Sparsefinder.from_pretrained(wrong)
    except InputError as error:
        assert "or the name of a repository on the hub" in str(error)
    else:
        raise AssertionError(wrong)
"""
    python(hub, tmp_path, ABOUT + push + load)
    assert set(hub.files("me/finders")) == {"README.md", "finders.json", "finders.safetensors"}
    metadata, text = page(hub.files("me/finders")["README.md"])
    assert metadata["library_name"] == "sparsefinder"
    assert "| teacher | me/bert |" in text
    assert "| text | WikiText-103 |" in text
    assert "| wanted recall | 0.9 |" in text
    assert r"| encoder 0 | `Window(size=3) \| GlobalTokens(count=2)` | 0.940 | 0.750 |" in text
    assert "| encoder 1 | `Window(size=5)` |  |  |" in text
    use = text.split("```python\n")[1].split("```")[0]
    assert 'Sparsefinder.from_pretrained("me/finders")' in use
    assert len(use.splitlines()) <= 5
    # Once they are here, the hub may be out of reach.
    before = len(hub.requests)
    python(hub, tmp_path, ABOUT + load, HF_HUB_OFFLINE="1")
    assert len(hub.requests) == before


def test_a_model_and_its_finders_go_to_the_hub_and_come_back(hub: Hub, tmp_path: Path) -> None:
    together = """
model = use_entmax(make("bert"), learn=True)
full = run(model, ids)
use_finders(model, fitted)
commit = push_model(model, "me/bert", text="WikiText-103").rsplit("/")[-1]
again = load_model("me/bert", dtype=torch.float64).eval()
assert dict(finders_of(again)) == dict(fitted)
torch.testing.assert_close(run(again, ids), run(model, ids))
torch.testing.assert_close(run(load_model("me/bert", dtype=torch.float64, finders=False).eval(), ids), full)
assert dict(Sparsefinder.from_pretrained("me/bert")) == dict(fitted)
"""
    # A model without finders takes the place of one with them, and is loaded without.
    alone = """
push_model(use_finders(model, None), "me/bert")
assert len(finders_of(load_model("me/bert"))) == 0
assert dict(finders_of(load_model("me/bert", revision=commit))) == dict(fitted)
"""
    python(hub, tmp_path, ABOUT + together + alone)
    (_, first), (_, last) = hub.repositories["me/bert"][1:]
    files = {"config.json", "model.safetensors", "README.md"}
    assert files | {"finders/finders.json", "finders/finders.safetensors"} <= set(first)
    assert files <= set(last)
    assert not [name for name in last if name.startswith("finders")]
    _, text = page(first["README.md"])
    assert "| teacher | this model, me/bert |" in text
    assert "| text | WikiText-103 |" in text
    assert 'load_model("me/bert")' in text
    _, text = page(last["README.md"])
    assert "No finders are saved here" in text
