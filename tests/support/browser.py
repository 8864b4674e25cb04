"""A real browser for tests of pages: Debian's chromium-headless-shell, or the one that HOLDFAST_CHROMIUM names."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.no_browser import HOW, MISSING

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """The path of a browser of the system; None if there is none."""
    if named := os.environ.get("HOLDFAST_CHROMIUM"):
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser. Skips the test if this machine has none."""
    path = find_chromium()
    if path is None:
        pytest.skip(f"{MISSING}: {HOW}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A tab of the browser, and everything that went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return width


@contextmanager
def tab(browser: Browser, *, width: int = 1200, height: int = 900, dark: bool = False) -> Iterator[Watched]:
    """A new tab of this size, in light or in dark."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", bypass_csp=False
    )
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


def ink(page: Page, selector: str, colour: str = "") -> int:
    """How many pixels of the first canvas below `selector` are not transparent, or have this very colour."""
    count: int = page.evaluate(
        """([selector, colour]) => {
          const drawn = document.querySelector(`${selector} canvas`), copy = document.createElement("canvas");
          [copy.width, copy.height] = [drawn.width, drawn.height + 1];  // below the copy, one pixel of the colour
          const context = copy.getContext("2d", {willReadFrequently: true});
          context.drawImage(drawn, 0, 0);
          context.fillStyle = colour;
          context.fillRect(0, drawn.height, 1, 1);
          const [red, green, blue] = context.getImageData(0, drawn.height, 1, 1).data;
          const data = context.getImageData(0, 0, drawn.width, drawn.height).data;
          let count = 0;
          for (let at = 0; at < data.length; at += 4) {
            const same = data[at] === red && data[at + 1] === green && data[at + 2] === blue;
            count += data[at + 3] > 0 && (!colour || same);
          }
          return count;
        }""",
        [selector, colour],
    )
    return count


def shots() -> Path | None:
    """The folder for screenshots that HOLDFAST_SHOTS names; None if nobody wants them."""
    named = os.environ.get("HOLDFAST_SHOTS")
    if named is None:
        return None
    Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named)
