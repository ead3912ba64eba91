"""The page's scripts are modules: what one imports another exports, nothing is imported for nothing, and a name that is
not there fails the page.
"""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.page import page as page_of

from .browser import browser, opened
from .made_up import Sizes, make_run

ASSETS = files("sparsefinder.lab.report") / "assets"
SCRIPTS = {one.name: one.read_text(encoding="utf-8") for one in ASSETS.iterdir() if one.name.endswith(".js")}
IMPORT = re.compile(r'^import \{\s+([^}]*?),?\s+\} from "report/([^"]*)";\n', re.M)
EXPORT = re.compile(r"^export (?:async function|function|const) (\w+)", re.M)
IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.S)


def imports(script: str) -> list[tuple[str, str]]:
    """Pairs of a module and a name that a script imports from it."""
    return [(module, name) for names, module in IMPORT.findall(script) for name in re.split(r",\s*", names)]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_a_module_imports_is_exported_and_used(name: str) -> None:
    script = SCRIPTS[name]
    body = re.sub(r"//.*", "", IMPORT.sub("", script))
    assert not re.search(r"^import|import\(", body, re.M)
    for module, taken in imports(script):
        assert taken in EXPORT.findall(SCRIPTS[module])
        assert re.search(rf"(?<![\w.$]){re.escape(taken)}\b", body), f"{taken} is imported and not used"


def test_what_a_module_exports_is_imported_by_another() -> None:
    exported = {(name, one) for name, script in SCRIPTS.items() for one in EXPORT.findall(script)}
    assert exported == {one for script in SCRIPTS.values() for one in imports(script)}


def test_every_module_is_reached_from_the_page() -> None:
    reached, ahead = set(), {"page.js"}
    while ahead:
        reached |= ahead
        ahead = {module for name in ahead for module, _ in imports(SCRIPTS[name])} - reached
    assert reached == set(SCRIPTS)


def test_an_import_of_what_is_not_exported_fails_the_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Sizes(layers=1, heads=2, examples=0), timing=False)
    whole = page_of(Content(folder, load_recipe(folder / "recipe.yaml")))
    (found,) = IMPORT_MAP.findall(whole)
    addresses: dict[str, str] = json.loads(found)["imports"]
    assert set(addresses) == {f"report/{name}" for name in SCRIPTS}
    empty = "data:text/javascript;base64," + base64.b64encode(b"export const none = 0;").decode()
    broken = json.dumps({"imports": addresses | {"report/legend.js": empty}})
    path = tmp_path / "broken.html"
    path.write_text(whole.replace(found, broken), encoding="utf-8")
    with (
        browser() as running,
        pytest.raises(AssertionError, match="legend.js' does not provide an export named"),
        opened(running, path),
    ):
        pass
