"""One browser for all tests of pages. They are skipped, with a word about it, where there is none."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.support.browser import chromium


# Not for the whole run: while playwright runs, no other test of this process can start an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a screen."""
    with chromium() as found:
        yield found
