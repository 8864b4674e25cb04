"""Progress is a spinner on a terminal and plain lines without escape codes elsewhere."""

import io

import pytest
from rich.console import Console

from holdfast.local.progress_bar import ConsoleReport, Silent


def run(console: Console) -> None:
    report = ConsoleReport(console)
    with report.step("Building [x]") as update:
        update("3 packages compiled")
    report.note("waiting for [y]")


def test_plain_lines_without_a_terminal() -> None:
    text = io.StringIO()
    run(Console(file=text, width=80))
    first, second, third = text.getvalue().splitlines()
    assert first == "Building [x] ..."
    assert second.startswith("Building [x]: done in 0.")
    assert third == "waiting for [y]"
    assert "\x1b" not in text.getvalue()


def test_a_terminal_shows_the_detail_and_then_one_line_with_the_duration() -> None:
    text = io.StringIO()
    run(Console(file=text, force_terminal=True, width=80))
    assert "Building [x]" in text.getvalue()
    assert "✓" in text.getvalue()


@pytest.mark.parametrize("console", [None, Console(file=io.StringIO())])
def test_an_error_passes_through(console: Console | None) -> None:
    report = ConsoleReport(console) if console else Silent()
    with pytest.raises(ZeroDivisionError), report.step("x"):
        raise ZeroDivisionError
