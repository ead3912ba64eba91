"""The page in a real browser: it opens by itself, answers to pointer and keyboard, and fits a phone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report import write_report
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.sweep.summary import summary

from .browser import browser, opened
from .made_up import Sizes, make_run

HEADS = Sizes(layers=2, heads=4)
SECTIONS = ("answer", "scores", "methods", "heads", "maps", "clusters", "timing", "bench", "training", "provenance")


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Content:
    folder = make_run(tmp_path_factory.mktemp("run") / "made-up", HEADS)
    write_report(folder)
    return Content(folder, load_recipe(folder / "recipe.yaml"))


def index(run: Content) -> Path:
    return run.folder / "report/index.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_width_and_every_section_is_there(running: Browser, run: Content, width: int) -> None:
    with opened(running, index(run), width) as page:
        for name in SECTIONS:
            page.locator(f"#{name}").scroll_into_view_if_needed()
            assert "could not be shown" not in page.locator(f"#{name}").inner_text()
        assert "on 1 thread, the finder" in page.locator("#timing").inner_text()
        page.wait_for_selector("#map-weights[data-shown]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # To be looked at; pytest keeps the folders of its last runs.
        page.screenshot(path=str(run.folder / f"{width}.png"), full_page=True)


def test_a_model_that_reaches_nothing_still_gets_its_table_and_page(running: Browser, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "untrained", HEADS, metric="BLEU", full=0.0)
    scored = [row for row in summary(folder) if row["metric"] == "BLEU"]
    assert {row["score_hypervolume"] for row in scored} == {0.0}
    write_report(folder)
    with opened(running, folder / "report/index.html") as page:
        for name in ("answer", "scores", "timing"):
            page.locator(f"#{name}").scroll_into_view_if_needed()
            assert "could not be shown" not in page.locator(f"#{name}").inner_text()


def key(page: Page, number: int) -> Locator:
    return page.locator(f'#answer .key[data-series="{number}"]')


def test_the_legend_hides_a_method_in_every_chart(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        number = shown(page)[0]
        charts = page.locator("#recall-chart, #score-chart, #head-chart").locator(f'g[data-line="{number}"]')
        assert (charts.count(), key(page, number).get_attribute("aria-pressed")) == (3, "true")
        key(page, number).click()
        assert (charts.count(), key(page, number).get_attribute("aria-pressed")) == (0, "false")


def test_hovering_a_point_shows_its_setting(running: Browser, run: Content) -> None:
    assert run.recall is not None
    _, best = run.recall.of(1)
    setting = run.recall.settings[best[0]]
    with opened(running, index(run)) as page:
        page.get_by_role("button", name="more method").first.click()
        # The other methods have points in the same places.
        key(page, 1).dblclick()
        x, y = page.evaluate("""() => {
            const { x, y } = document.querySelector('#recall-chart g[data-line="1"] .line').getPointAtLength(0);
            const { left, top } = document.querySelector('#recall-chart svg').getBoundingClientRect();
            return [left + x, top + y];
        }""")
        page.mouse.move(x, y)
        tip = page.locator("#recall-chart .tip").inner_text()
        assert run.series[1].label in tip
        assert setting.words() in tip
        assert f"sparsity {100 * run.recall.x[best[0]]:.1f}\u00a0%" in tip
        exact = run.recall.measured.columns["full_recall"][best[0]]
        assert f"exact rows {100 * exact:.1f}\u00a0% · empty rows 0.0\u00a0%" in tip
        page.mouse.move(2, 2)
        assert page.locator("#recall-chart .tip").is_hidden()


def test_the_table_of_methods_has_both_rankings_and_says_what_they_answer(running: Browser, run: Content) -> None:
    rows = {row["method"]: row for row in summary(run.folder)}
    with opened(running, index(run)) as page:
        text = page.locator("#methods").inner_text()
        assert "which method finds the pairs that the teacher itself attends to" in text
        assert "which method keeps the model’s perplexity" in text
        cells = page.locator("#methods tbody tr", has_text="k-means").locator("td").all_inner_texts()
        for name, cell in (("hypervolume", cells[4]), ("score_hypervolume", cells[6])):
            value, low, high = (rows["kmeans"][f"{name}{end}"] for end in ("", "_low", "_high"))
            assert cell.split() == [f"{value:.3f}", f"[{low:.3f},", f"{high:.3f}]"]


def test_the_numbers_of_the_frontiers_say_what_rows_lose_and_pooled_means(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        for chart, own in (("recall-chart", []), ("score-chart", ["Own recall"])):
            box = page.locator("figure", has=page.locator(f"#{chart}"))
            box.locator("summary").click()
            # The table is made once it is asked for.
            box.locator("table").wait_for()
            headings = box.locator("th[scope=col]").all_inner_texts()
            assert headings[4:] == [
                *own, "Precision", "Exact rows", "Empty rows", "Pooled sparsity", "Pooled recall", "Pooled precision",
            ]  # fmt: skip
            assert "NaN" not in box.inner_text()


def test_the_keyboard_reads_charts_and_maps(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        page.locator("#recall-chart svg").focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#recall-chart .tip").inner_text()
        page.keyboard.press("ArrowDown")
        assert page.locator("#recall-chart .tip").inner_text() not in ("", first)
        page.wait_for_selector("#map-graph[data-shown]")
        page.locator("#map-graph").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert "(1) → key" in page.locator("#map-readout").inner_text()
        page.locator("#heatmap .grid button").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator("#head-chart").get_attribute("data-head") == str(HEADS.heads + 1)


def test_everything_that_can_be_pressed_has_a_name(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        unnamed = page.evaluate("""() => [...document.querySelectorAll("button, select, input, canvas, svg[tabindex]")]
            .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label") || one.closest("label")))
            .map((one) => one.outerHTML)""")
        assert unnamed == []


def test_a_chosen_head_changes_the_map_and_a_sentence_the_tokens(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        page.wait_for_selector("#map-weights[data-shown]")
        seen = {picture(page)}
        # By key: charts that are drawn as they are scrolled to may move a button from under the mouse.
        page.locator("#maps .grid button").nth(5).press("Enter")
        page.wait_for_selector('#map-weights[data-shown="0/encoder/1/1/0"]')
        seen.add(picture(page))
        page.locator("#maps .control", has_text="Sentence").locator("select").select_option("1")
        page.wait_for_selector('#map-weights[data-shown="1/encoder/1/1/0"]')
        seen.add(picture(page))
        page.locator("#maps .control", has_text="Finder").locator("select").select_option("2")
        page.wait_for_selector('#map-weights[data-shown="1/encoder/1/1/2"]')
        seen.add(picture(page))
        page.get_by_role("button", name="Zoom in").click()
        seen.add(picture(page))
        assert len(seen) == 5
        # A head chosen above is the head shown here.
        page.locator("#heatmap .grid button").nth(2).press("Enter")
        page.wait_for_selector('#map-weights[data-shown="1/encoder/0/2/2"]')


def test_heads_are_ranked_by_what_the_page_says_of_them(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        page.wait_for_selector("#map-weights[data-shown]")
        recalls = [float(text.split()[0]) for text in page.locator(".ranking strong").all_inner_texts()]
        assert len(recalls) == 3
        assert recalls == sorted(recalls, reverse=True)


def test_the_heatmap_has_the_highest_recall_of_settings_that_are_sparse_enough(running: Browser, run: Content) -> None:
    points, cloud = run.points, run.recall
    assert points is not None
    assert cloud is not None
    number = next(place for place, one in enumerate(run.series) if one.method == "kmeans")
    with opened(running, index(run)) as page:
        page.locator("#heatmap select").select_option(str(number))
        for wanted in (0.5, 0.8):
            page.locator("#sparsity").fill(str(wanted))
            shown = page.locator("#heatmap .grid button").all_inner_texts()
            for head, text in enumerate(shown):
                mine = (points.head == head) & (cloud.which[points.setting] == number) & (points.sparsity >= wanted)
                assert abs(float(text) - 100 * points.recall[mine].max()) <= 0.51


def test_the_command_is_copied(running: Browser, run: Content) -> None:
    with opened(running, index(run)) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#copy").click()
        page.get_by_text("Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("cat > made-up.yaml <<")
        assert copied.endswith("sparsefinder run made-up.yaml\n")


def shown(page: Page) -> list[int]:
    """The numbers of the methods whose lines are drawn on the first screen."""
    lines = page.locator("#recall-chart g[data-line]").all()
    return [int(line.get_attribute("data-line") or -1) for line in lines]


def picture(page: Page) -> str:
    return hashlib.sha256(page.evaluate("document.querySelector('#map-weights').toDataURL()").encode()).hexdigest()
