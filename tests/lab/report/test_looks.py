"""Every method can be told apart, on the page as in print."""

import re
from collections import Counter
from importlib.resources import files

import pytest
from matplotlib.lines import Line2D

from sparsefinder.finders import methods

LOOKS = {name: kind.about.look for name, kind in methods().items()}


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_no_two_methods_have_the_same_colour(ground: str) -> None:
    counted = Counter(getattr(look, ground) for look in LOOKS.values())
    assert [colour for colour, count in counted.items() if count > 1] == []


def test_page_and_print_know_every_marker() -> None:
    script = (files("sparsefinder") / "lab/report/assets/markers.js").read_text(encoding="utf-8")
    shapes = script.partition("SHAPES = {")[2].partition("};")[0]
    drawn = set(re.findall(r'^  "?([^\s":]+)"?: ', shapes, re.MULTILINE))
    for name, look in LOOKS.items():
        assert look.marker in drawn, name
        assert look.marker in Line2D.markers, name
        # Taken: full attention is the star of every chart.
        assert look.marker != "*", name
