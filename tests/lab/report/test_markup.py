"""Text of the corpus is text on the page, whatever it holds; and a run that has little gets a page of what it has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe, load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.encoding import safe_json
from sparsefinder.lab.report.figures import write_figures
from sparsefinder.lab.report.page import page as page_of

from .browser import browser, opened
from .made_up import Sizes, make_run

HOSTILE = [
    "<script>window.hacked=1</script>", "</script><img src=x onerror=window.hacked=1>", "\"'`", "\u202eabc", "\u200f",
    "\u2028", "a\u2029b", "&lt;b&gt;", "${data}", "$x_1$", "nul\u0000", "日本", "<!--", "]]>", "\u0627\u0644", " ",
]  # fmt: skip
SMALL = Sizes(layers=1, heads=2, examples=1, finders=False)


def written(folder: RunFolder, recipe: Recipe | None = None) -> Path:
    """The page without the figures."""
    content = Content(folder, recipe or load_recipe(folder / "recipe.yaml"))
    path = folder / "index.html"
    path.write_text(page_of(content), encoding="utf-8")
    return path


def test_tokens_cannot_become_markup(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SMALL, tokens=[HOSTILE])
    recipe = load_recipe(folder / "recipe.yaml").model_copy(update={"description": "".join(HOSTILE)})
    path = written(folder, recipe)
    with browser() as running, opened(running, path) as page:
        page.wait_for_selector("#map-graph[data-shown]")
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == 3
        assert page.locator("img").count() == 0
        page.locator("#map-graph").focus()
        read = []
        for _ in HOSTILE:
            page.keyboard.press("ArrowDown")
            read.append(page.locator("#map-readout bdi").first.inner_text())
        assert read[0] == HOSTILE[0]
        assert read[1] == HOSTILE[1]
        assert read[3] == "⟨U+202E⟩abc"
        assert read[5] == "⟨U+2028⟩"
        assert read[7] == HOSTILE[7]
    # Without points, maps are the only figure.
    shutil.rmtree(folder / "points")
    write_figures(Content(folder, recipe), tmp_path)
    assert (tmp_path / "maps.pdf").stat().st_size > 1000


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800", "</SCRIPT"])
def test_json_in_a_script_is_the_same_and_cannot_end_it(text: str) -> None:
    safe = safe_json({"text": text})
    assert json.loads(safe) == {"text": text}
    assert not set(safe) & set("<>&\u2028\u2029\ud800")


@pytest.mark.parametrize("lacks", ["points", "traces", "finders", "teacher", "stages"])
def test_what_a_run_lacks_is_said_and_the_rest_is_shown(tmp_path: Path, lacks: str) -> None:
    folder = make_run(tmp_path / "run", SMALL)
    shutil.rmtree(folder / lacks, ignore_errors=True)
    with browser() as running, opened(running, written(folder)) as page:
        text = page.locator("main").inner_text()
        assert "could not be shown" not in text
        assert "undefined" not in text
        assert "NaN" not in text
        assert ("no points yet" in text) == (lacks == "points")
        assert ("kept no sentences" in text) == (lacks == "traces")
        assert "sparsefinder run made-up.yaml" in text


def test_translation_is_scored_upwards(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SMALL, metric="BLEU", timing=False)
    with browser() as running, opened(running, written(folder)) as page:
        assert "Sparsity and BLEU" in page.locator("#scores").inner_text()
        assert "upside down" not in page.locator("#scores").inner_text()
        assert "measured no running times" in page.locator("#timing").inner_text()
