"""What a new user meets first: importing, the README's example, the errors' shape, installing without a compiler."""

import inspect
import os
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import sparsefinder
from sparsefinder import InputError, finders

ROOT = Path(__file__).parents[1]


def python(code: str, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | more,
    )  # fmt: skip


def test_importing_is_light() -> None:
    done = python(
        "import sys, sparsefinder\n"
        "heavy = {'transformers', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sparsefinder.use_entmax\n"
        "assert 'transformers' in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there() -> None:
    for name in sparsefinder.__all__:
        assert getattr(sparsefinder, name) is not None
    assert set(sparsefinder.__all__) <= set(dir(sparsefinder))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sparsefinder.nothing  # noqa: B018


def test_every_finder_is_where_it_is_looked_for() -> None:
    """All methods can be imported from `sparsefinder.finders`, whichever file they are in."""
    methods = set()
    for file in pkgutil.iter_modules(finders.__path__, "sparsefinder.finders."):
        classes = vars(import_module(file.name)).values()
        # What several methods have in common is nothing to use.
        kinds = {one for one in classes if isinstance(one, type) and issubclass(one, finders.Finder)}
        methods |= {one for one in kinds if not inspect.isabstract(one)}
    assert len(methods) >= 32
    assert {one.__name__ for one in methods} <= set(finders.__all__)


def test_no_module_is_long_without_a_reason() -> None:
    """A file holds one idea; where it passes 300 lines, its first lines say why."""
    package = ROOT / "src" / "sparsefinder"
    for file in [*package.glob("*.py"), *(package / "hf").rglob("*.py"), *(package / "traces").rglob("*.py")]:
        content = file.read_text()
        assert len(content.splitlines()) <= 300 or "300 lines" in content.split('"""')[1], file


def test_the_readmes_examples_run(tmp_path: Path) -> None:
    """One after the other, as a reader would run them: the later ones go on with what the earlier ones made."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(examples) > 1
    done = python("\n".join(examples), tmp_path, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(examples)


def test_errors_survive_a_trip_to_another_process() -> None:
    error = InputError("alpha", 0.5, "more")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "alpha: got 0.5, want more"
    assert again.argument == "alpha"
    assert isinstance(again, InputError)


@pytest.mark.parametrize("compiler", ["working", "broken"])
def test_building_with_and_without_a_compiler(compiler: str, tmp_path: Path) -> None:
    """A compiler that fails, or none, still gives an installable package, and the build says what is missing."""
    source = tmp_path / "source"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", ".hypothesis", "tests"),
    )
    env = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")}
    if compiler == "broken":
        env["CXX"] = "/nonexistent/c++"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
        capture_output=True, text=True, check=False, env=env,
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sparsefinder/core/entmax.py" in names
    assert not any(name.endswith(".cpp") for name in names)
    built = any(name.startswith("sparsefinder/_native") for name in names)
    assert built is (compiler == "working"), output
    if compiler == "broken":
        assert "could NOT be built" in output
        assert "none-any" in wheel.name
