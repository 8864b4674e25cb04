"""Progress is a spinner on a terminal and plain lines without escape codes elsewhere."""

import io
import threading

import pytest
from rich.console import Console

from holdfast_local.progress_bar import ConsoleReport, Silent


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


def test_a_step_that_takes_long_gives_signs_of_life_without_a_terminal() -> None:
    text, seen = io.StringIO(), threading.Event()

    class Watched(Console):
        def print(self, *objects: object, **options: object) -> None:
            super().print(*objects, **options)  # type: ignore[arg-type]
            if "7 of 9" in str(objects[0]):
                seen.set()

    with ConsoleReport(Watched(file=text, width=80), every=0.01).step("Building") as update:
        update("7 of 9 packages compiled")
        assert seen.wait(30)
    lines = text.getvalue().splitlines()
    assert any(line.startswith("Building: 7 of 9 packages compiled, 0.") for line in lines)
    assert lines[-1].startswith("Building: done in")


def test_steps_side_by_side_share_a_terminal() -> None:
    text = io.StringIO()
    report = ConsoleReport(Console(file=text, force_terminal=True, width=80))
    with report.step("first"):
        with report.step("second") as update:
            update("3 packages")
        report.note("in between")
    with report.step("third"):
        pass
    shown = text.getvalue()
    said = ["\u2713\x1b[0m second", "in between", "\u2713\x1b[0m first", "\u2713\x1b[0m third"]
    assert sorted(said, key=shown.index) == said
