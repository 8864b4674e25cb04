"""One browser for all tests of pages. They are skipped, with a word about it, where there is none."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.support.browser import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a screen."""
    with chromium() as found:
        yield found
