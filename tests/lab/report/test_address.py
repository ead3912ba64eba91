"""What is selected and what is zoomed into is kept in the address, in a real browser: a link shows the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.page import page as page_of

from ..bench.made_up import add_bench
from .browser import browser, opened
from .made_up import Sizes, make_run
from .test_charts import lines, ticks


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("run") / "made-up", Sizes(layers=2, heads=3))
    add_bench(folder.path)
    content = Content(folder, load_recipe(folder / "recipe.yaml"))
    (folder / "page.html").write_text(page_of(content), encoding="utf-8")
    return folder / "page.html"


def test_the_address_keeps_what_is_selected(running: Browser, file: Path) -> None:
    with opened(running, file) as page:
        page.wait_for_selector("#map-weights[data-shown]")
        hidden = lines(page)[0]
        page.locator(f'#answer .key[data-series="{hidden}"]').click()
        page.locator("#heatmap .grid button").nth(4).press("Enter")
        page.locator("#maps .control", has_text="Sentence").locator("select").select_option("1")
        page.locator("#maps .control", has_text="Finder").locator("select").select_option("1")
        page.locator("#sparsity").fill("0.7")
        page.locator("#timing .control select").select_option("8")
        page.locator("#bench .control", has_text="Length").locator("select").select_option("512")
        page.get_by_role("link", name="Maps").click()
        shown = lines(page)
        page.wait_for_selector('#map-weights[data-shown^="1/encoder/1/1/1"]')
        address = page.evaluate("location.hash")
    assert address.startswith("#maps&")
    with opened(running, file, address=address) as page:
        page.wait_for_selector('#map-weights[data-shown^="1/encoder/1/1/1"]')
        assert lines(page) == shown
        assert hidden not in shown
        assert page.locator("#head-chart").get_attribute("data-head") == "4"
        assert page.locator("#sparsity").input_value() == "0.7"
        assert page.locator("#timing .control select").input_value() == "8"
        assert "512 tokens" in page.locator("#bench-table").inner_text()
        page.wait_for_function("Math.abs(document.getElementById('maps').getBoundingClientRect().top) < 100")


def brush(page: Page, chart: str) -> None:
    """Mark the middle of a chart with the mouse."""
    drawing = page.locator(f"{chart} svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.35 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.55 * box["width"], box["y"] + 0.6 * box["height"], steps=4)
    page.mouse.up()


def test_the_address_keeps_what_is_zoomed_into(running: Browser, file: Path) -> None:
    charts = ("#recall-chart", "#score-chart", "#head-chart", "#time-chart", "#quality-chart", "#bench-chart")
    with opened(running, file) as page:
        # The maps take their room when they are there.
        page.wait_for_selector("#map-weights[data-shown]")
        whole = {chart: ticks(page, chart) for chart in charts}
        for chart in charts:
            brush(page, chart)
        near = {chart: ticks(page, chart) for chart in charts}
        assert all(near[chart] != whole[chart] for chart in charts)
        page.get_by_role("button", name="Zoom in").click()
        shown = map_view(page)
        address = page.evaluate("location.hash")
    with opened(running, file, address=address) as page:
        assert {chart: ticks(page, chart) for chart in charts} == near
        page.wait_for_selector("#map-weights[data-shown]")
        assert map_view(page) == shown
        # Other lines on the same axes leave the part that is seen; other axes show all of it.
        page.locator("#heatmap .grid button").nth(4).press("Enter")
        assert ticks(page, "#head-chart") == near["#head-chart"]
        page.locator("#timing .control select").select_option("8")
        assert page.locator("#time-chart").get_attribute("data-zoomed") == "no"
        for chart in charts:
            page.locator(f"{chart} svg").focus()
            page.keyboard.press("Home")
        page.get_by_role("button", name="Show the whole matrix").click()
        assert not re.search("chart=|map-view=", page.evaluate("location.hash"))
    # What is no part of a chart asks for nothing.
    with opened(running, file, address="#answer&recall-chart=0.5~x~1&score-chart=2~1~0~1") as page:
        assert {chart: ticks(page, chart) for chart in charts} == whole


def map_view(page: Page) -> str:
    return str(page.evaluate("document.querySelector('#map-weights').toDataURL()"))
