"""A benchmark in the report: time by length on the page and in print, its numbers, and the chart for a README."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsefinder import InputError
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.figures_bench import RATIOS, bench_figure, write_chart
from sparsefinder.lab.report.page import page as page_of

from ..bench.made_up import LENGTHS, METHODS, add_bench
from .browser import browser, opened
from .grounds import assert_for_both_grounds
from .made_up import Sizes, make_run

SMALL = Sizes(layers=1, heads=2, examples=0)


def content(path: Path, lengths: tuple[int, ...] = LENGTHS) -> Content:
    folder = make_run(path / "run", SMALL, timing=False)
    if lengths:
        add_bench(folder.path, lengths)
    return Content(folder, load_recipe(folder / "recipe.yaml"))


def test_the_page_has_a_line_for_each_method_and_a_table_for_each_length(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(content(tmp_path)), encoding="utf-8")
    with browser() as running, opened(running, file) as page:
        page.locator("#bench").scroll_into_view_if_needed()
        assert "could not be shown" not in page.locator("#bench").inner_text()
        page.wait_for_selector("#bench-chart g[data-line]")
        assert page.locator("#bench-chart g[data-line]").count() == len(METHODS)
        assert page.locator("#bench-chart").inner_text().count("1,024") == 1
        table = page.locator("#bench-table")
        assert "2,048 tokens" in table.inner_text()
        assert table.locator("tbody tr").count() == len(METHODS)
        row = table.locator("tbody tr", has_text="sketch").inner_text()
        # 2 ms grow by the power of 1.5 over four times the length, and 5 and 10 ms by that of 2.
        assert "5.00\u00a0×" in row
        assert "10.00\u00a0×" in row
        page.locator("#bench .control", has_text="Length").locator("select").select_option("512")
        assert "2.50\u00a0×" in table.locator("tbody tr", has_text="sketch").inner_text()
        before = page.locator("#bench-chart svg").inner_html()
        page.locator("#bench .control", has_text="Time of").locator("select").select_option("forward")
        assert page.locator("#bench-chart svg").inner_html() != before
        page.get_by_text("Block variants by number").click()
        # The table is made once it is asked for.
        page.locator("details[open] table").wait_for()
        assert page.locator("details[open] tbody tr").count() == 6


def test_a_run_that_was_not_benchmarked_says_how(tmp_path: Path) -> None:
    found = content(tmp_path, ())
    assert found.bench is None
    assert bench_figure(found) is None
    file = tmp_path / "page.html"
    file.write_text(page_of(found), encoding="utf-8")
    with browser() as running, opened(running, file) as page:
        assert "sparsefinder bench RUN" in page.locator("#bench").inner_text()


def test_one_length_is_a_table_without_a_chart(tmp_path: Path) -> None:
    found = content(tmp_path, (512,))
    assert bench_figure(found) is None
    file = tmp_path / "page.html"
    file.write_text(page_of(found), encoding="utf-8")
    with browser() as running, opened(running, file) as page:
        assert page.locator("#bench-chart").count() == 0
        assert page.locator("#bench-table tbody tr").count() == len(METHODS)
    with pytest.raises(InputError, match="two lengths at least"):
        write_chart(found.folder, tmp_path / "chart.svg")
    assert not (tmp_path / "chart.svg").exists()


def test_the_printed_figure_has_both_times_by_length(tmp_path: Path) -> None:
    figure = bench_figure(content(tmp_path))
    assert figure is not None
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert len(axes.lines) == len(METHODS)
        assert all(list(line.get_xdata()) == list(LENGTHS) for line in axes.lines)
    (full,) = [line for line in figure.axes[0].lines if line.get_label() == "all pairs"]
    assert list(full.get_ydata()) == pytest.approx([5, 20, 80])


def test_the_readmes_chart_can_be_read_on_light_and_dark_ground(tmp_path: Path) -> None:
    found = content(tmp_path)
    write_chart(found.folder, tmp_path / "docs/crossover.svg")
    text = assert_for_both_grounds(tmp_path / "docs/crossover.svg")
    for shown in ("sketch", "distance", "full softmax", "all pairs", "1,024", *RATIOS.values()):
        assert f">{shown}<" in text
    # The same rows, the same file.
    write_chart(found.folder, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
