"""Charts for a README, which have to be read on light and on dark ground."""

import re
from pathlib import Path
from xml.etree import ElementTree

from sparsefinder.lab.report.figures_look import GREY

COLOUR = re.compile(r"(?:fill|stroke): (#[0-9a-f]{6})")


def assert_for_both_grounds(chart: Path) -> str:
    """Nothing is black or white, or lies behind all: what stands in between can be seen on both. Returns the SVG."""
    text = chart.read_text()
    ElementTree.fromstring(text)
    colours = set(COLOUR.findall(text))
    assert GREY in colours
    for colour in colours:
        assert 0.15 < sum(int(colour[place : place + 2], 16) for place in (1, 3, 5)) / 765 < 0.85, colour
    return text
