"""House rules that a program can check: short files, one meaning per name, things that are said in one place."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/sparsefinder"
FILES = sorted(SOURCE.rglob("*.py"))


def _name(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_a_file_has_at_most_300_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 300


def test_a_class_of_the_inner_rooms_and_of_tasks_has_its_name_alone() -> None:
    places = defaultdict(list)
    for file in FILES:
        if not _name(file).startswith("lab/") or _name(file).startswith("lab/tasks/"):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(_name(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_folders_that_appear_whole_are_made_in_one_place() -> None:
    makers = {_name(file) for file in FILES if "mkdtemp" in file.read_text()}
    assert makers == {"files.py"}


@pytest.mark.parametrize("room", ["core", "lab/sweep"])
def test_what_a_ratio_of_nothing_is_stands_in_one_place(room: str) -> None:
    by_hand = re.compile(r"nanmean|errstate")
    found = {_name(file) for file in (SOURCE / room).rglob("*.py") if by_hand.search(file.read_text())}
    assert found <= {"core/ratios.py"}


def test_english_says_per_where_it_means_per() -> None:
    """As in: one length per sequence."""
    things = "head|row|sequence|layer|query|key|pair|token|line"
    wrong = re.compile(rf"\b(one|once|length|value|number|entry|paragraph) an? ({things})\b", re.IGNORECASE)
    rooms = ("core/", "traces/", "lab/run.py", "lab/tasks/", "lab/sweep/", "lab/recipe/")
    found = [(_name(file), *wrong.findall(file.read_text())) for file in FILES if _name(file).startswith(rooms)]
    assert [each for each in found if len(each) > 1] == []
