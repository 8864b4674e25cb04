"""What a run of tests says where there is no browser. It needs no library of browsers."""

from collections.abc import Iterable

MISSING = "no chromium on this machine"
HOW = "install Debian's chromium-headless-shell, or name a browser in HOLDFAST_CHROMIUM"


def not_tested(reasons: Iterable[str]) -> str:
    """What the end of a run says of the tests that a missing browser has skipped; empty if it has skipped none."""
    count = sum(MISSING in reason for reason in reasons)
    return f"{count} tests of pages in a browser were skipped: {HOW}" if count else ""
