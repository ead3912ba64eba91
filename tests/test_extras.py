"""The base install and the extras: what works without them, and which one an error names."""

import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

from sparsefinder import MissingExtraError

from . import base_only

ROOT = Path(__file__).parents[1]

HIDDEN = """
import runpy, sys, warnings
for name in {names}:
    sys.modules[name] = None
sys.argv = ["sparsefinder"]
{then}
"""


def hiding(names: tuple[str, ...], then: str) -> subprocess.CompletedProcess[str]:
    """Python where some packages cannot be found."""
    code = HIDDEN.format(names=names, then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)


def requirements(extra: str | None = None) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        line.partition(">")[0]
        for line in (project["dependencies"] if extra is None else project["optional-dependencies"][extra])
    }


def test_the_base_works_without_any_extra() -> None:
    done = hiding((*base_only.EXTRAS, "scipy"), f"runpy.run_path({base_only.__file__!r}, run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert "the base works" in done.stdout


def test_models_need_no_lab() -> None:
    """With [hf] alone, a model is switched to entmax and the command says that it needs [lab]."""
    then = (
        "from transformers import BertConfig, BertModel\n"
        "from sparsefinder import use_entmax\n"
        "use_entmax(BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=9)))\n"
        "runpy.run_module('sparsefinder', run_name='__main__')"
    )
    done = hiding(("accelerate", "datasets", "matplotlib", "pyarrow", "pydantic", "sacrebleu"), then)
    assert done.returncode == 1, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: this needs")
    assert 'pip install "sparsefinder[lab]"' in done.stderr


def test_every_extra_holds_the_one_before() -> None:
    assert requirements() == {"jaxtyping", "numpy", "safetensors", "torch"}
    assert "sparsefinder[hf]" in requirements("lab")
    assert "sparsefinder[lab]" in requirements("dev")
    assert {"transformers", "scikit-learn", "huggingface_hub"} <= requirements("hf")


def test_what_is_missing_survives_a_trip_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(MissingExtraError("sklearn", "hf")))
    assert str(error) == 'this needs sklearn, which is not installed: pip install "sparsefinder[hf]"'
