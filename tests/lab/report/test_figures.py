"""Figures for print have what the paper's captions say: axes, the gold line, the star, the full model's line."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sparsefinder.errors import InputError
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.figures import FIGURES, write_figures
from sparsefinder.lab.report.figures_heads import heads_figure
from sparsefinder.lab.report.figures_look import COLUMN, LOOK, TEXT, legend_columns
from sparsefinder.lab.report.figures_pareto import pareto_figure, write_pareto
from sparsefinder.lab.report.figures_timing import timing_figure
from sparsefinder.lab.report.page_data import page_data

from ..bench.made_up import add_bench
from .grounds import assert_for_both_grounds
from .made_up import Sizes, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Content:
    folder = make_run(tmp_path_factory.mktemp("run") / "made-up", Sizes(layers=2, heads=2))
    add_bench(folder.path)
    return Content(folder, load_recipe(folder / "recipe.yaml"))


def test_every_figure_is_written_as_vectors_and_as_a_bitmap(run: Content, tmp_path: Path) -> None:
    write_figures(run, tmp_path)
    # No pipeline for parts of speech was named.
    wanted = {f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png") if name != "clusters"}
    assert {file.name for file in tmp_path.iterdir()} == wanted
    for file in tmp_path.iterdir():
        assert file.read_bytes()[:4] in (b"%PDF", b"\x89PNG")


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"clusters"}))
def test_legends_are_within_their_figures(run: Content, name: str) -> None:
    with matplotlib.rc_context(LOOK):
        figure = FIGURES[name](run)
        assert figure is not None
        figure.draw_without_rendering()
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert figure.bbox.x0 <= box.x0
            assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("letters", [8, 16, 29, 60])
def test_a_legend_has_as_many_columns_as_there_is_room_for(letters: int) -> None:
    with matplotlib.rc_context(LOOK):
        entries = [Line2D([], [], label="n" * letters) for _ in range(7)]
        for width in (COLUMN, TEXT):
            figure = Figure(figsize=(width, 3))
            columns = legend_columns(entries, width, 6)
            legend = figure.legend(handles=entries, ncols=columns, columnspacing=1.0, handlelength=1.8)
            figure.draw_without_rendering()
            assert columns == 1 or legend.get_window_extent().width <= figure.bbox.width


def test_the_trade_off_has_the_gold_line_and_the_star(run: Content) -> None:
    figure = pareto_figure(run)
    assert figure is not None
    assert run.score is not None
    left, right = figure.axes
    assert run.measured_recall is not None
    assert run.measured_scores is not None
    assert right.get_xlabel() == "Sparsity (% of pairs skipped)"
    assert (left.get_ylabel(), right.get_ylabel()) == ("Recall (% of gold pairs found)", "Perplexity (lower is better)")
    assert right.yaxis_inverted()
    for axes, full, gold in (
        (left, 1.0, run.measured_recall.gold),
        (right, run.score.value, run.measured_scores.gold),
    ):
        (star,) = [line for line in axes.lines if line.get_marker() == "*"]
        assert np.allclose([star.get_xdata(), star.get_ydata()], [[gold], [full]])
        dashed = [line for line in axes.lines if line.get_linestyle() == "--" and len(set(line.get_xdata())) == 1]
        assert [line.get_xdata()[0] for line in dashed] == [gold]


def test_the_readmes_chart_has_the_frontiers_of_the_methods_asked_for(run: Content, tmp_path: Path) -> None:
    recall = run.recall
    assert recall is not None
    labels = {series.label: series.method for series in recall.series if series.competes}
    write_pareto(run.folder, tmp_path / "all.svg")
    text = assert_for_both_grounds(tmp_path / "all.svg")
    assert all(f">{label}<" in text for label in labels)
    write_pareto(run.folder, tmp_path / "some.svg", ["kmeans"])
    text = assert_for_both_grounds(tmp_path / "some.svg")
    assert {label for label in labels if f">{label}<" in text} == {
        label for label, method in labels.items() if method == "kmeans"
    }
    with pytest.raises(InputError, match="only: got kmean, want one of "):
        write_pareto(run.folder, tmp_path / "none.svg", ["kmean"])
    assert not (tmp_path / "none.svg").exists()


def test_print_has_the_axes_and_the_lines_of_the_page(run: Content) -> None:
    figure, page = pareto_figure(run), page_data(run)
    assert figure is not None
    assert run.score is not None
    for axes, cloud, upwards in zip(figure.axes, (run.recall, run.scores), (float, run.score.upwards), strict=True):
        assert cloud is not None
        across, up = page["recall" if cloud is run.recall else "scores"]["limits"]
        assert np.allclose(axes.get_xlim(), across)
        assert np.allclose([upwards(end) for end in axes.get_ylim()], up)
        drawn = [line.get_xydata() for line in axes.lines]
        for number in page["shown"]:
            _, best = cloud.of(number)
            wanted = np.stack([cloud.x[best], cloud.measured.value[best]], axis=1)
            assert not len(best) or any(one.shape == wanted.shape and np.allclose(one, wanted) for one in drawn)


def test_there_is_a_chart_for_each_head_with_the_gold_line_of_that_head(run: Content) -> None:
    figure = heads_figure(run)
    assert figure is not None
    assert run.points is not None
    gold = [axes.lines[-1].get_xdata()[0] for axes in figure.axes]
    assert np.allclose(gold, run.points.gold_by_head)


def test_the_full_model_is_a_line_across_the_timings(run: Content) -> None:
    figure = timing_figure(run)
    assert figure is not None
    time, quality = figure.axes
    assert (quality.get_xlabel(), time.get_ylabel()) == ("Attended blocks", "Time of a pass (s)")
    assert run.timing is not None
    # No tick where nothing was measured.
    assert set(quality.get_xticks()) <= {row["blocks"] for row in run.timing.rows}
    assert [line.get_ydata()[0] for line in time.lines if line.get_linestyle() == "--"] == [61.0]
    assert [line.get_ydata()[0] for line in quality.lines if line.get_linestyle() == "--"] == [11.37]
    assert quality.yaxis_inverted()
