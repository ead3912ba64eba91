"""Several runs on one page: beside each other, with the same methods in the same colours, on the same axes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsefinder import InputError
from sparsefinder.lab.cli import app
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import dump_recipe
from sparsefinder.lab.report import write_comparison
from sparsefinder.lab.sweep.summary import write_summary

from .browser import browser, opened
from .made_up import Sizes, make_run, recipe_of

SMALL = Sizes(layers=1, heads=2, settings=4, examples=0)


def test_runs_are_put_beside_each_other(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / name, SMALL, metric=metric, timing=False, seed=seed)
        for seed, (name, metric) in enumerate((("one", "perplexity"), ("two", "perplexity"), ("three", "BLEU")))
    ]
    result = CliRunner().invoke(app, ["report", *(str(folder.path) for folder in folders)])
    page_file = tmp_path / "compare-one-two-three.html"
    assert result.exit_code == 0, result.output
    assert f"The page: {page_file}" in result.output.replace("\n", "")
    with browser() as running, opened(running, page_file) as page:
        assert "could not be shown" not in page.locator("main").inner_text()
        assert page.locator("h3 a").all_inner_texts() == ["one", "two", "three"]
        assert page.locator("h3 a").first.get_attribute("href") == "one/report/index.html"
        assert page.locator(".sentence").count() == 3
        ticks = [page.locator(f"#recall-chart-{place} .axes").text_content() for place in range(3)]
        # The same axes; the gold lines are each run's own.
        assert len({(text or "").partition("gold")[0] for text in ticks}) == 1
        lines = [page.locator(f"#recall-chart-{place} g[data-line]").count() for place in range(3)]
        assert lines[0] == lines[1] == lines[2] > 2
        scores = [page.locator(f"#score-chart-{place}").text_content() or "" for place in range(3)]
        assert ["perplexity" in text for text in scores] == [True, True, False]
        assert "BLEU" in scores[2]
        # Pointing at a method points at it in every run.
        page.locator("#answer .key").first.focus()
        assert all(page.locator(f"#recall-chart-{place} g.faded").count() == lines[0] - 1 for place in range(3))
        every = page.locator("table").last
        row = every.locator("tbody tr", has_text="Routing Transformer").locator("td").all_inner_texts()
        for place, folder in enumerate(folders):
            write_summary(folder)
            with (folder / "summary.csv").open(encoding="utf-8") as file:
                (mine,) = [one for one in csv.DictReader(file) if one["method"] == "routing"]
            assert row[2 * place + 1] == f"{float(mine['hypervolume']):.3f}"
            reached = mine["sparsity_at_95"]
            wanted = f"{100 * float(reached):.1f}\u00a0%" if reached else "not reached"
            assert row[2 * place].startswith(wanted)


def test_a_run_without_points_cannot_be_compared(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "one", SMALL, timing=False)
    bare = RunFolder(tmp_path / "bare")
    bare.path.mkdir()
    (bare / "recipe.yaml").write_text(dump_recipe(recipe_of()), encoding="utf-8")
    with pytest.raises(InputError, match="bare"):
        write_comparison([folder, bare], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
