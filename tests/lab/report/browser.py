"""A real browser for the tests of the page: Debian's chromium, or the one that playwright brought."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "no browser to test the page in: `make browser` installs chromium, `playwright install chromium` does as well"


@contextmanager
def browser() -> Iterator[Browser]:
    """A running browser; where there is none, the test says how to get one: skipped, or failed in CI."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, NAMES)), None) or (own if Path(own).exists() else None)
        if found is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(HOW)
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


def two_frames(page: Page) -> None:
    """Wait until the browser has told the page of its sizes and media, which is between two frames."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@contextmanager
def opened(
    running: Browser, path: Path, width: int = 1280, height: int = 900, dark: bool = False, address: str = ""
) -> Iterator[Page]:
    """The page at a width; afterwards, it must have said nothing on the console and asked the network for nothing.

    address: what comes after the #.
    """
    page = running.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    # Back when the scripts have run: a module that could not be imported has been complained of by then.
    page.goto(path.as_uri() + address)
    ready = page.locator("html[data-ready]").count() == 1
    assert ready, f"the page did not run to its end, and said {said}"
    # Charts are drawn when the browser has told them their width.
    two_frames(page)
    yield page
    assert said == [], said
    # What is saved goes by an address that holds it.
    assert [one for one in asked if not one.startswith(("blob:", "data:"))] == [path.as_uri()], asked
    page.close()
