"""Times in pages: written as they are, and shown by live.js as an age or as what is left.

So the HTML of a fragment does not change while only time passes.
"""

from datetime import UTC, datetime
from typing import Final

from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Template

_HTML: Final = Template(__name__)


def age(at: datetime | None) -> str:
    """The time since `at`, as markup."""
    return _time(at, "age")


def left(at: datetime | None) -> str:
    """The time until `at`, as markup."""
    return _time(at, "left")


def _time(at: datetime | None, show: str) -> str:
    if at is None:
        return formats.NOTHING
    return _HTML.time(at=f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", show=show, exact=formats.moment(at))
