"""What is seen without scrolling, in print, and in both schemes; and what a section without content is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from sparsefinder.describing import does, whose
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report import page_data
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.page import page as page_of
from sparsefinder.lab.report.page import written

from .browser import browser, opened, two_frames
from .made_up import Sizes, make_run


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Content:
    folder = make_run(tmp_path_factory.mktemp("run") / "made-up", Sizes(layers=3, heads=4))
    content = Content(folder, load_recipe(folder / "recipe.yaml"))
    (folder / "page.html").write_text(page_of(content), encoding="utf-8")
    return content


def file(run: Content) -> Path:
    return run.folder / "page.html"


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_sentence_and_the_chart_are_on_the_first_screen(
    running: Browser, run: Content, width: int, height: int
) -> None:
    assert run.answer is not None
    with opened(running, file(run), width, height) as page:
        said = " ".join(page.locator(".sentence, .speed").all_inner_texts()).replace("\u00a0", " ")
        assert said == run.answer.sentence.replace("*", "").replace("`", "")
        assert "n = 64 sequences for recall" in page.locator(".rests-on").inner_text()
        for name in (".sentence", ".speed", ".rests-on", "#recall-chart svg"):
            box = page.locator(name).bounding_box()
            assert box is not None
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= height, name
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_drawn_is_explained_beside_it(running: Browser, run: Content) -> None:
    assert run.recall is not None
    with opened(running, file(run)) as page:
        text = page.locator(".explanation").inner_text().replace("\u00a0", " ")
        for word in ("gold", "predicts", "missed", "Recall", "Sparsity", "dashed line"):
            assert word in text
        assert f"{100 * run.recall.measured.gold:.1f} %" in text
        drawing = page.locator(".matrix-drawing")
        assert drawing.locator(".missed-star").count() == 1
        assert drawing.locator(".found-star").count() > 3
        assert drawing.locator(".predicted-cell").count() > drawing.locator(".found-star").count()


def test_every_method_says_what_it_does_and_whose_it_is(running: Browser, run: Content) -> None:
    with opened(running, file(run)) as page:
        said = page.locator("#methods tbody th").all_inner_texts()
        for series in run.series:
            (line,) = [text for text in said if text.startswith(f"{series.label}\n")]
            assert does(series.method).replace("`", "") in line
            assert whose(series.method) in line
        chip = page.locator("#answer .key", has_text="sketch")
        tip = page.locator("#answer .tipped", has=page.locator(".key", has_text="sketch")).locator(".method-tip")
        assert tip.is_hidden()
        chip.hover()
        assert tip.is_visible()
        assert tip.inner_text().split("\n")[0] == does("sketch")
        assert "ours" in tip.inner_text()


def test_heads_are_drawn_for_print_before_they_are_scrolled_to(running: Browser, run: Content) -> None:
    with opened(running, file(run), height=500) as page:
        drawn = page.locator(".card").filter(has=page.locator("path"))
        below = page.locator("#maps").bounding_box()
        assert drawn.count() == 0
        page.pdf()
        assert drawn.count() == 12
        two_frames(page)
        # Their room was kept: nothing jumps where one is reading.
        assert page.locator("#maps").bounding_box() == below


# Heights of what is drawn once pages have been counted: told from before any layout for paper.
HEIGHTS = "[...document.querySelectorAll('.plot, .matrix canvas')].map((one) => one.getBoundingClientRect().height)"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_grows_once_pages_are_counted(running: Browser, run: Content, width: int) -> None:
    with opened(running, file(run), width) as page:
        page.wait_for_selector("#map-graph[data-shown]")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        # As wide as A4, which is told to the page only after its pages have been laid out.
        page.set_viewport_size({"width": 794, "height": 1123})
        counted = page.evaluate(HEIGHTS)
        two_frames(page)
        two_frames(page)
        assert len(counted) > 4
        assert page.evaluate(HEIGHTS) == counted
        assert page.locator("#map-graph").evaluate("(one) => one.getBoundingClientRect().width") == 650


# The share of what is painted of a map that is light: there is more green in it than half.
BRIGHT = """() => {
    const map = document.querySelector("#map-graph");
    const { width, height } = map;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(map, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    const painted = [...data.keys()].filter((place) => place % 4 === 1 && data[place + 2] > 0);
    return painted.filter((place) => data[place] > 128).length / painted.length;
}"""


def test_what_is_printed_is_drawn_for_paper_and_light_also_from_a_dark_page(running: Browser, run: Content) -> None:
    ink = "getComputedStyle(document.body).color"
    with opened(running, file(run)) as page:
        page.wait_for_selector("#map-graph[data-shown]")
        light = page.evaluate(ink)
    with opened(running, file(run), dark=True) as page:
        page.wait_for_selector("#map-graph[data-shown]")
        assert page.evaluate(ink) != light
        assert page.evaluate(BRIGHT) < 0.5
        wide = page.locator("#score-chart svg").get_attribute("width")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(ink) == light
        assert page.locator("#score-chart svg").get_attribute("width") == "650"
        two_frames(page)
        assert page.evaluate(BRIGHT) > 0.5
        assert page.evaluate("getComputedStyle(document.querySelector('.cell')).printColorAdjust") == "exact"
        assert page.locator("details:not([open]):visible").count() == 0
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#score-chart svg").get_attribute("width") == wide


CONTRAST = """() => {
    const light = (css) => css.match(/[\\d.]+/g).slice(0, 3).map(Number)
        .map((one) => one / 255).map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
    return [...document.querySelectorAll(".cell")].map((cell) => {
        const { color, backgroundColor } = getComputedStyle(cell);
        const [high, low] = [light(color), light(backgroundColor)].sort((one, other) => other - one);
        return (high + 0.05) / (low + 0.05);
    });
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_cells_can_be_read_in_both_schemes(running: Browser, run: Content, dark: bool) -> None:
    with opened(running, file(run), dark=dark) as page:
        page.wait_for_selector("#map-weights[data-shown]")
        for wanted in ("0.5", "0.8", "0.95"):
            page.locator("#sparsity").fill(wanted)
            found = page.evaluate(CONTRAST)
            assert len(found) == 24
            assert min(found) >= 4.5


def test_maps_open_on_the_leading_method_and_a_telling_head(running: Browser, run: Content) -> None:
    assert run.answer is not None
    leader = re.findall(r"\*(.+?)\*", run.answer.sentence)[0]
    with opened(running, file(run)) as page:
        page.wait_for_selector('#map-weights[data-shown$="/0"]')
        chosen = page.locator("#maps .control", has_text="Finder").locator("select option:checked").inner_text()
        assert chosen.startswith(f"{leader}: ")
        seen = {page.locator("#map-weights").get_attribute("data-shown")}
        patterns = page.locator(".telling button").all_inner_texts()
        assert set(patterns) <= {"near", "far", "same word", "delimiter"}
        assert len(patterns) >= 2
        for name in patterns:
            page.locator(".telling button", has_text=re.compile(f"^{name}$")).click()
            page.locator('.telling button[aria-pressed="true"]', has_text=re.compile(f"^{name}$")).wait_for()
            seen.add(page.locator("#map-weights").get_attribute("data-shown"))
        assert len(seen) >= len(patterns)


def test_a_section_without_content_is_a_line(running: Browser, run: Content) -> None:
    with opened(running, file(run)) as page:
        for name in ("clusters", "bench"):
            box = page.locator(f"#{name}").bounding_box()
            assert box is not None
            assert box["height"] < 80
            assert page.evaluate(f"getComputedStyle(document.getElementById('{name}')).borderTopWidth") == "0px"


def test_a_page_stays_small_whatever_the_maps_take(run: Content, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = len(written({"name": "", "description": ""}).encode())
    assert bare + page_data.MOST_BYTES < 5_000_000
    whole = page_data.page_data(run)
    rest = {name: value for name, value in whole.items() if name != "maps"}
    room = 20_000
    monkeypatch.setattr(page_data, "MOST_BYTES", len(page_data.safe_json(rest | {"maps": None}).encode()) + room)
    small = page_of(run)
    assert len(small.encode()) < len(page_of_whole(whole)) - 10_000
    assert len(small.encode()) <= bare + page_data.MOST_BYTES + 5_000


def page_of_whole(data: dict[str, object]) -> str:
    return written(data)
