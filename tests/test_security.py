"""What SECURITY.md promises: nothing is unpickled, no code of a checkpoint is run, no name leads out of its folder."""

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sparsefinder import InputError, Sparsefinder, Window
from sparsefinder.core.layout import Layout
from sparsefinder.lab.report.page import written
from sparsefinder.traces.store import Traces
from sparsefinder.traces.writer import TraceWriter, join

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src/sparsefinder").rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_no_module_unpickles_or_runs_what_it_reads(file: Path) -> None:
    """Nor builds commands, nor lets a checkpoint bring code."""
    names = {
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert not names & {("torch", "load"), ("np", "load"), ("yaml", "load"), ("os", "system"), ("marshal", "loads")}
    assert not re.search(r"^\s*(import|from) (pickle|cloudpickle|dill|joblib|marshal|shelve)\b", file.read_text(), re.M)
    assert not re.search(r"trust_remote_code\s*=\s*True|\beval\(|\bexec\(", file.read_text().replace(".eval()", ""))


class Evil:
    """Makes a folder where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.environ.get("EVIL", "evil"),)


def test_pickles_in_the_place_of_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIL", str(tmp_path / "owned"))
    Sparsefinder({("encoder", 0): Window(3)}).save_pretrained(tmp_path / "fit")
    _record(tmp_path / "traces")
    for file in (tmp_path / "fit/finders.safetensors", tmp_path / "traces/encoder-0-00000.safetensors"):
        file.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="cannot be understood"):
        Sparsefinder.from_pretrained(tmp_path / "fit")
    with pytest.raises(InputError, match="cannot be understood"):
        list(Traces.open(tmp_path / "traces").samples("encoder", 0))
    assert not (tmp_path / "owned").exists()


def _record(path: Path) -> None:
    with TraceWriter(path, teacher="none") as writer:
        q = torch.randn(1, 2, 8, 4)
        writer.add("encoder", 0, q, q, Layout())


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/hostname", "a/../../secret.safetensors", 3, None])
def test_names_in_an_index_stay_in_their_folder(name: object, tmp_path: Path) -> None:
    _record(tmp_path / "traces/part")
    join(tmp_path / "traces", ["part"])
    (tmp_path / "traces/part/encoder-0-00000.safetensors").rename(tmp_path / "secret.safetensors")
    index = json.loads((tmp_path / "traces/index.json").read_text())
    index["sites"][0]["shards"][0]["file"] = name
    (tmp_path / "traces/index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="one within that folder"):
        Traces.open(tmp_path / "traces")


@pytest.mark.parametrize("name", ["os.system", "../window", "__class__", ""])
def test_finders_are_found_by_the_names_of_methods_alone(name: str, tmp_path: Path) -> None:
    Sparsefinder({("encoder", 0): Window(3)}).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "finders.json").read_text())
    config["sites"][0]["finder"]["name"] = name
    (tmp_path / "finders.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="one of"):
        Sparsefinder.from_pretrained(tmp_path)


def test_importing_loads_no_entry_point() -> None:
    """Code of other packages runs when methods are asked for by name, and not before."""
    code = (
        "import importlib.metadata as metadata\n"
        "import torch\n"
        "def refused(*given, **named): raise AssertionError('entry points were asked for')\n"
        "metadata.entry_points = refused\n"
        "import sparsefinder\n"
        "q = torch.randn(1, 1, 4, 4)\n"
        "sparsefinder.attention(q, q, q, sparsefinder.Window(3)(q, q))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_asks_for_nothing_and_what_it_says_is_text() -> None:
    words = "</script><script>alert(1)</script>"
    page = written({"name": words, "description": words})
    assert "default-src 'none'" in page
    assert words not in page
    assert not re.search(r"""(src|href)=["']https?:""", page)


def test_the_documents_say_it() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for words in ("unpickle", "trust_remote_code", "report", "Ray"):
        assert words in text
