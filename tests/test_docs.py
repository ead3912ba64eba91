"""What documents name is there: files, links, commands; in docs/paper.md every part of the paper, and functions."""

import ast
import importlib.util
import inspect
import itertools
import re
import shlex
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter
from typer.main import get_command

import sparsefinder
from sparsefinder.finders import methods
from sparsefinder.lab.cli import app
from sparsefinder.lab.recipe import Method, Recipe, load_recipe
from sparsefinder.lab.report.figures import FIGURES
from sparsefinder.lab.sweep.grids import GRIDS
from sparsefinder.lab.sweep.settings import expand

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/paper.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))
# Paths that are told by where they begin, also in commands; what a run writes is elsewhere, charts are yet to be.
FROM_ROOT = re.compile(r"(?<![\w/.-])(?<!--chart )(?:src|tests|docs|recipes|benchmarks)/[\w/.-]*[\w/]")
# And names of source files, with as much of their path as is said.
SOURCE = re.compile(r"`([\w/.-]+\.(?:py|js|css|h|cpp|md))(?:: [\w.]+)?`")
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_are_there(document: Path) -> None:
    text = document.read_text()
    missing = [path for path in FROM_ROOT.findall(text) if not (ROOT / path).exists()]
    rooms = [ROOT / room for room in ("src", "tests", "benchmarks", "docs")]
    files = [path.as_posix() for path in (*ROOT.glob("*.*"), *(file for room in rooms for file in room.rglob("*.*")))]
    missing += [name for name in SOURCE.findall(text) if not any(file.endswith(f"/{name}") for file in files)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", document.read_text()):
        other = document.parent / target if target else document
        # Tutorials are scripts that the site makes pages of.
        other = other if other.exists() else other.with_suffix(".py")
        assert other.exists(), target
        headings = re.findall(r"^#+ (.*)", other.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_their_options_are_there(document: Path) -> None:
    known: Any = get_command(app)
    for name, rest in re.findall(r"(?:^|`)sparsefinder ([a-z]+)([^`\n]*)", document.read_text(), re.MULTILINE):
        assert name in known.commands, name
        options = {option for one in known.commands[name].params for option in one.opts}
        assert set(re.findall(r"(?<= )--[a-z-]+", rest.split("#")[0])) <= options


@pytest.mark.parametrize("document", RESULTS, ids=lambda path: path.name)
def test_results_can_be_had_again_by_the_commands_beside_them(document: Path) -> None:
    """Every command is whole, and its recipe takes what it sets."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for language, block in blocks if not language for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert [words for words in commands if words and words[0] in ("sparsefinder", "python", "make")]
    for words in commands:
        assert not any("…" in word for word in words), words
        if words[:2] in (["sparsefinder", "run"], ["sparsefinder", "train"]):
            load_recipe(ROOT / words[2], [value for option, value in itertools.pairwise(words) if option == "--set"])


def test_pieces_of_recipes_are_right() -> None:
    """What stands in the paper's table between backticks and reads as a part of a recipe."""
    found = 0
    for piece in re.findall(r"`(\{method: [^`]*\}|\w+: \{[^`]*\})`", TEXT):
        value = yaml.safe_load(piece)
        if "method" in value:
            own = {name: each for name, each in value.items() if name != "method"}
            assert all(one.finder for one in expand(Method(method=value["method"], settings=own)))
        else:
            for part, inner in value.items():
                TypeAdapter(Recipe.model_fields[part].annotation).validate_python(inner)
        found += 1
    assert found > 5


def test_the_readme_leads_to_it() -> None:
    assert "docs/paper.md" in (ROOT / "README.md").read_text()


def test_the_readme_is_a_screen_and_a_half_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).is_file()] == []


def _calls() -> list[str]:
    """What stands in the paper's table between backticks and reads as a call in Python."""
    pieces = [piece.replace("\\|", "|") for piece in re.findall(r"`([^`]+\))`", TEXT)]
    return [piece for piece in pieces if re.match(r"[\w.]+\(", piece)]


def test_calls_are_of_functions_that_take_such_arguments() -> None:
    made = {"graph": sparsefinder.Graph}
    named = {name: file for file, name in NAMED}
    found = 0
    for piece in _calls():
        for call in (node for node in ast.walk(ast.parse(piece)) if isinstance(node, ast.Call)):
            path = ast.unparse(call.func).split(".")
            start = made.get(path[0]) or getattr(sparsefinder, path[0], None)
            start = start or getattr(_module(named[path[0]]), path[0])
            takes = inspect.signature(reduce(getattr, path[1:], start))
            # A method of what is made by another call has itself as its first argument.
            given = [None] * (len(call.args) + (path[0] in made))
            takes.bind(*given, **{one.arg: None for one in call.keywords if one.arg})
            found += 1
    assert found > 10
