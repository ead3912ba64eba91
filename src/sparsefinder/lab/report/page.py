"""The page: one HTML file with its styles, scripts and data inside, which asks the network for nothing."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from .content import Content
from .encoding import safe_json
from .page_data import page_data

__all__ = ["page", "written"]


def page(content: Content) -> str:
    """The whole page of a run as HTML."""
    return written(page_data(content))


def written(data: Mapping[str, Any]) -> str:
    """Data for the scripts as a page."""
    return Template((files(__package__) / "assets/template.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"{data['name']} – Sparsefinder"),
        styles="\n".join(_assets(".css").values()),
        modules=safe_json({"imports": {f"report/{name}": _url(name, text) for name, text in _assets(".js").items()}}),
        data=safe_json(data),
    )


def _assets(ending: str) -> dict[str, str]:
    """The files of one kind, by name. Nothing rests on their order: scripts import, and styles keep to their own."""
    found = sorted((one for one in (files(__package__) / "assets").iterdir() if one.name.endswith(ending)), key=str)
    return {one.name: one.read_text(encoding="utf-8") for one in found}


def _url(name: str, script: str) -> str:
    """A module as an address that holds it. Consoles and debuggers show the name.

    Browsers import modules by address, and pages opened from a disk may import no other file. An import map names the
    addresses: so modules stay files that say what they take from each other, and nobody needs a bundler. They say
    `report/chart.js` and not `./chart.js`, since nothing is relative to an address like these.
    """
    return f"data:text/javascript;base64,{base64.b64encode(f'{script}//# sourceURL=report/{name}'.encode()).decode()}"
