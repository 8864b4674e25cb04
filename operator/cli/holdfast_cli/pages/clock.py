"""Times in pages: written as they are, and shown by live.js as an age or as what is left.

So the HTML of a fragment does not change while only time passes.
"""

from datetime import UTC, datetime

from holdfast_cli.terminal import formats


def age(at: datetime | None) -> str:
    """HTML: the time since `at`."""
    return _time(at, "age")


def left(at: datetime | None) -> str:
    """HTML: the time until `at`."""
    return _time(at, "left")


def _time(at: datetime | None, show: str) -> str:
    if at is None:
        return formats.NOTHING
    exact = formats.moment(at)
    return f'<time datetime="{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" data-show="{show}" title="{exact}">{exact}</time>'
