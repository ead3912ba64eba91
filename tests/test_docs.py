"""docs/paper.md names what there is: every part of the paper, and files, functions, recipes, figures and commands."""

import importlib.util
import re
from functools import reduce
from pathlib import Path
from types import ModuleType

import pytest

from sparsefinder.finders import methods
from sparsefinder.lab.cli import app
from sparsefinder.lab.report.figures import FIGURES
from sparsefinder.lab.sweep.grids import GRIDS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/paper.md").read_text()
NAMED = re.findall(r"`([\w/.]+\.py): ([\w.]+)`", TEXT)
# What the paper has: its sections, and so many numbered equations, figures and tables.
SECTIONS = [
    "1", "2", "3.1", "3.2", *(f"4.{number}" for number in range(1, 8)), "5", "6", "6.1", "7",
]  # fmt: skip
PARTS = [
    *(f"Sec. {one}" for one in SECTIONS),
    *(f"App. {one}" for one in ("A", "B", "C.1", "C.2", "D.1", "D.2", "E", "F")),
    *(f"Eq. {number}" for number in (*range(1, 11), 13)),
    *(f"Fig. {number}" for number in range(1, 14)),
    *(f"Table {number}" for number in range(1, 7)),
]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_paper_has_a_row(part: str) -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| ")]
    assert any(re.search(rf"{re.escape(part)}(?![\d]|\.\d)", row) for row in rows)


def _module(file: str) -> ModuleType:
    path = ROOT / file if file.startswith("benchmarks/") else ROOT / "src/sparsefinder" / file
    assert path.is_file(), f"docs/paper.md names {file}, which is not there"
    if file.startswith("benchmarks/"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        return importlib.util.module_from_spec(spec)
    return importlib.import_module("sparsefinder." + file.removesuffix(".py").replace("/", "."))


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_every_function_that_is_named_is_there(file: str, name: str) -> None:
    module = _module(file)
    if file.startswith("benchmarks/"):
        assert f"def {name}(" in (ROOT / file).read_text()
    else:
        assert reduce(getattr, name.split("."), module) is not None


def test_recipes_figures_grids_methods_and_commands_are_there() -> None:
    assert len(NAMED) > 30
    for file in re.findall(r"`((?:recipes|tests|benchmarks)/[\w/.-]+)`|pytest ([\w/.]+)`|python ([\w/.]+)`", TEXT):
        assert (ROOT / "".join(file)).is_file(), file
    assert set(re.findall(r"figures? `([\w-]+)`", TEXT)) <= set(FIGURES)
    assert set(FIGURES) - set(re.findall(r"figures? `([\w-]+)`", TEXT)) == {"bench", "heatmap"}, "these are ours"
    assert set(re.findall(r'\("([\w-]+)"\)|sweep\.grid=([\w-]+)', TEXT)) <= {
        pair for name in GRIDS for pair in ((name, ""), ("", name))
    }
    assert set(re.findall(r"\{method: (\w+)", TEXT)) <= set(methods())
    commands = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback is not None}
    assert set(re.findall(r"`sparsefinder (\w+)", TEXT)) <= commands


def test_the_readme_leads_to_it() -> None:
    assert "docs/paper.md" in (ROOT / "README.md").read_text()
