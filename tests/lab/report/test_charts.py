"""Charts in a real browser: names at line ends, reading, pointing, isolating, zooming, saving; and what they keep."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.answer import shown_first
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.page import page as page_of

from ..bench.made_up import add_bench
from .browser import browser, opened
from .made_up import Sizes, make_run

SIZES = Sizes(layers=2, heads=3)


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Content:
    folder = make_run(tmp_path_factory.mktemp("run") / "made-up", SIZES)
    add_bench(folder.path)
    content = Content(folder, load_recipe(folder / "recipe.yaml"))
    (folder / "page.html").write_text(page_of(content), encoding="utf-8")
    return content


def file(run: Content) -> Path:
    return run.folder / "page.html"


def lines(page: Page, chart: str = "#recall-chart") -> list[int]:
    return [int(one.get_attribute("data-line") or -1) for one in page.locator(f"{chart} g[data-line]").all()]


def ticks(page: Page, chart: str) -> list[str]:
    """The labels of the upright axis, from the top down."""
    found = page.evaluate(
        """(chart) => [...document.querySelectorAll(`${chart} .axes text[text-anchor="end"]:not(.rule-label)`)]
            .map((one) => [Number(one.getAttribute("y")), one.textContent])""",
        chart,
    )
    return [text for _, text in sorted(found)]


def test_only_the_frontiers_methods_are_shown_until_one_click(running: Browser, run: Content) -> None:
    assert run.recall is not None
    first = shown_first(run.recall)
    assert 2 < len(first) < len(run.series)
    with opened(running, file(run)) as page:
        assert lines(page) == first
        names = [run.series[number].label for number in first]
        ends = page.locator("#recall-chart text.end").all_text_contents()
        assert all(name.startswith(end.removesuffix("…")) for name, end in zip(names, ends, strict=True))
        page.get_by_role("button", name="more method").first.click()
        assert lines(page) == list(range(len(run.series)))
        tops = page.evaluate(
            "[...document.querySelectorAll('#recall-chart text.end')].map((one) => Number(one.getAttribute('y')))"
        )
        assert np.diff(np.sort(tops)).min() >= 12.9
        page.get_by_role("button", name="Fewer methods").first.click()
        assert lines(page) == first


# The names at the ends of the lines of all charts: chart, text, and the box within the drawing that it takes.
NAMES = """() => [...document.querySelectorAll(".chart[id]")].map((chart) =>
    [...chart.querySelectorAll("text.end")].map((one) => {
        const { x, y, width, height } = one.getBBox();
        return [one.textContent, x, y, x + width, y + height, chart.clientWidth, chart.clientHeight];
    }))"""


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_names_of_lines_are_whole_apart_and_within_the_chart(running: Browser, run: Content, width: int) -> None:
    labels = {one.label for one in run.series}
    with opened(running, file(run), width) as page:
        for every in (False, True):
            if every:
                page.get_by_role("button", name="more method").first.click()
            charts = [names for names in page.evaluate(NAMES) if names]
            assert len(charts) >= 4
            for names in charts:
                for text, left, top, right, bottom, wide, high in names:
                    assert 0 <= left <= right <= wide + 0.5, (text, right, wide)
                    assert 0 <= top <= bottom <= high + 0.5, text
                    # A line of text is higher than what is written in it, so that neighbours' boxes meet a little.
                    others = [one for one in names if one[0] != text]
                    assert not any(top < one[4] - 3 and one[2] < bottom - 3 for one in others), text
                if not every:
                    assert not [text for text, *_ in names if "…" in text]
            assert {text for text, *_ in charts[0]} <= labels or every


def test_perplexity_is_on_a_reversed_axis_in_its_own_units(running: Browser, run: Content) -> None:
    assert run.scores is not None
    with opened(running, file(run)) as page:
        for chart in ("#score-chart", "#timing figure:last-child .chart"):
            shown = [float(one) for one in ticks(page, chart)]
            assert shown == sorted(shown)
            assert shown[0] > 0
        assert "perplexity (lower is better)" in (page.locator("#score-chart").text_content() or "")
        _, (bottom, top) = run.scores.limits
        assert all(-top <= one <= -bottom for one in map(float, ticks(page, "#score-chart")))


def test_every_line_has_a_band_as_its_draws_say(running: Browser, run: Content) -> None:
    assert run.measured_recall is not None
    with opened(running, file(run)) as page:
        for chart in ("#recall-chart", "#score-chart"):
            bands = page.locator(f"{chart} .band").count()
            # A line of one point has none.
            assert bands >= page.locator(f"{chart} g[data-line]").count() - 1 > 0
    draws, within = run.measured_recall.draws, run.measured_recall.within
    assert draws is not None
    assert within is not None
    place = 3
    wanted = np.quantile(draws.value[:, place], [0.025, 0.975])
    assert np.allclose(within[:, place], wanted)


def spot(page: Page, number: int, chart: str = "#recall-chart") -> tuple[float, float]:
    """Where a line begins, on the screen."""
    x, y = page.evaluate(
        """([chart, number]) => {
            const { x, y } = document.querySelector(`${chart} g[data-line="${number}"] .line`).getPointAtLength(0);
            const { left, top } = document.querySelector(`${chart} svg`).getBoundingClientRect();
            return [left + x, top + y];
        }""",
        [chart, number],
    )
    return x, y


def test_pointing_at_a_method_highlights_it_in_every_chart(running: Browser, run: Content) -> None:
    assert run.recall is not None
    with opened(running, file(run)) as page:
        page.locator("#heads .multiples").scroll_into_view_if_needed()
        page.wait_for_selector(".multiples path[data-line]")
        number = next(place for place in shown_first(run.recall) if run.series[place].method == "sketch")
        page.locator(f'#answer .key[data-series="{number}"]').focus()
        for chart in ("#recall-chart", "#score-chart", "#head-chart", ".multiples"):
            faded = page.locator(f"{chart} [data-line].faded").evaluate_all("all => all.map((one) => one.dataset.line)")
            kept = page.locator(f"{chart} [data-line]:not(.faded)")
            assert faded
            assert str(number) not in faded
            assert kept.count() > 0
        # The benchmark has the same method in a chart of its own numbers.
        assert page.locator("#bench-chart g[data-line]:not(.faded)").count() == 1
        # From a chart, too.
        page.locator("#recall-chart").scroll_into_view_if_needed()
        page.mouse.move(*spot(page, number))
        assert page.locator("#score-chart g.faded").count() > 0
        page.mouse.move(2, 2)
        assert page.locator("#score-chart g.faded").count() == 0


def test_a_double_click_shows_one_method_alone_and_again_all(running: Browser, run: Content) -> None:
    with opened(running, file(run)) as page:
        before = lines(page)
        page.mouse.dblclick(*spot(page, before[1]))
        (alone,) = lines(page)
        assert lines(page, "#score-chart") in ([alone], [])
        page.locator(f'#answer .key[data-series="{alone}"]').dblclick()
        assert lines(page) == before


def test_a_brush_zooms_and_a_button_shows_the_whole_chart(running: Browser, run: Content) -> None:
    with opened(running, file(run)) as page:
        whole = ticks(page, "#recall-chart")
        box = page.locator("#recall-chart svg").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 200, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 300, box["y"] + 120, steps=4)
        assert page.locator("#recall-chart .brush").get_attribute("d")
        page.mouse.up()
        near = [float(one) for one in ticks(page, "#recall-chart")]
        assert max(near) - min(near) < float(whole[0]) - float(whole[-1])
        # Nothing is drawn outside.
        right = page.evaluate("Number(document.querySelector('#recall-chart clipPath path').getBBox().width)")
        assert 0 < right < box["width"]
        page.get_by_role("button", name="Whole chart").click()
        assert ticks(page, "#recall-chart") == whole
        page.locator("#recall-chart svg").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("+")
        assert ticks(page, "#recall-chart") != whole
        page.keyboard.press("Home")
        assert ticks(page, "#recall-chart") == whole


@pytest.mark.parametrize("width", [1280, 390])
def test_a_tip_does_not_cover_its_point(running: Browser, run: Content, width: int) -> None:
    with opened(running, file(run), width) as page:
        chart = page.locator("#recall-chart svg")
        chart.focus()
        told = 0
        for key in ["ArrowRight"] * 6 + ["ArrowDown"] * 3 + ["ArrowRight"] * 6:
            page.keyboard.press(key)
            ring, tip = page.evaluate("""() => ["ring", "tip"].map((name) => {
                const node = document.querySelector(`#recall-chart .${name}`);
                const { left, right, top, bottom } = node.getBoundingClientRect();
                return { left, right, top, bottom };
            })""")
            x, y = (ring["left"] + ring["right"]) / 2, (ring["top"] + ring["bottom"]) / 2
            assert not (tip["left"] <= x <= tip["right"] and tip["top"] <= y <= tip["bottom"])
            assert tip["left"] >= 0
            assert tip["right"] <= width
            told += 1
        assert told == 15


def test_charts_are_saved_as_pictures_and_as_numbers(running: Browser, run: Content) -> None:
    assert run.recall is not None
    with opened(running, file(run)) as page:
        files = itertools.count(1)

        def saved(label: str) -> tuple[str, bytes]:
            # Chromium drops what a page saves after ten files within a second. No reader is as fast.
            if next(files) % 8 == 0:
                page.wait_for_timeout(1500)
            with page.expect_download() as found:
                page.get_by_role("button", name=label, exact=True).press("Enter")
            return found.value.suggested_filename, Path(found.value.path()).read_bytes()

        page.wait_for_selector("#map-weights[data-shown]")
        name, content = saved("Save made-up recall as PNG")
        assert (name, content[:4]) == ("made-up-recall.png", b"\x89PNG")
        name, content = saved("Save made-up recall as SVG")
        drawing = ElementTree.fromstring(content)
        assert name == "made-up-recall.svg"
        assert b"light-dark" not in content
        assert any("stroke:rgb" in (one.get("style") or "") for one in drawing.iter())
        name, content = saved("Save made-up recall as CSV")
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        # Every point, whether its method is shown or not.
        assert np.allclose(sorted(float(row["sparsity"]) for row in rows), np.sort(run.recall.x), atol=1e-6)
        assert np.allclose(sorted(float(row["recall"]) for row in rows), np.sort(run.recall.y), atol=1e-6)
        assert all(float(row["recall_low"]) <= float(row["recall_high"]) for row in rows if row["frontier"] == "1")
        name, content = saved("Save made-up perplexity as CSV")
        assert min(float(row["perplexity"]) for row in csv.DictReader(io.StringIO(content.decode()))) > 0
        # Each chart, the small ones of all heads together, the table of heads in colour, and the maps.
        for label in (
            "made-up head",
            "made-up heads",
            "made-up recall of heads",
            "made-up bench",
            "made-up running time by blocks",
            "made-up perplexity by blocks",
            "made-up training",
        ):
            assert saved(f"Save {label} as PNG")[1][:4] == b"\x89PNG"
            assert ElementTree.fromstring(saved(f"Save {label} as SVG")[1]).tag.endswith("svg")
            assert saved(f"Save {label} as CSV")[1].count(b"\n") > 1
        cells = page.locator("#heatmap .grid button")
        drawn = list(ElementTree.fromstring(saved("Save made-up recall of heads as SVG")[1]))
        numbers = [one.text or "" for one in drawn if one.tag.endswith("text")]
        assert [text for text in cells.all_inner_texts() if text not in numbers] == []
        wanted = cells.first.evaluate("one => getComputedStyle(one).backgroundColor")
        assert any(f"fill:{wanted}" in (one.get("style") or "") for one in drawn if one.tag.endswith("rect"))
        # What is made to be saved does not stay.
        assert page.locator("body > .away").count() == 0
        assert saved("Save made-up Predicted graph as PNG")[1][:4] == b"\x89PNG"
        pairs = list(csv.DictReader(io.StringIO(saved("Save made-up Predicted graph as CSV")[1].decode())))
        assert {row["predicted"] for row in pairs} <= {"0", "1"}


def test_training_has_a_line_for_the_loss_and_one_for_validation(running: Browser, run: Content) -> None:
    with opened(running, file(run)) as page:
        assert page.locator("#training-chart g[data-line]").count() == 2
        assert page.locator("#training-chart text.end").all_text_contents() == ["training", "validation"]
        page.locator("#training-chart svg").focus()
        page.keyboard.press("ArrowRight")
        assert re.search(r"step 50: 5\.000", page.locator("#training-chart .tip").inner_text())
