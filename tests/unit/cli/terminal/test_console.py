"""Where colours are, and where they are not."""

import io
from collections.abc import Callable

import pytest
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from holdfast_cli.terminal.console import console, plain_console
from holdfast_cli.terminal.fitted_table import Column, Fitting

ONE = (Column("A"),)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO, *, wide: bool = False) -> str:
    console(stream, wide=wide).print(Text("x" * 100, style="red"))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


# Breaks if a program in a notebook gets colours and spinners in place of lines: a kernel of Jupyter sets FORCE_COLOR.
def test_lines_for_a_program_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    plain = plain_console(stream)
    plain.print(Text("x" * 100, style="red"))
    with plain.status("reading ..."):
        plain.print("y")
    assert stream.getvalue() == "x" * 100 + "\ny\n"


# Breaks if a pipe gets escape sequences, or if NO_COLOR does not switch them off on a terminal.
def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in printed(Terminal())
    assert printed(io.StringIO()) == "x" * 100 + "\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in printed(Terminal())


def test_a_wide_console_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert printed(io.StringIO()).splitlines() == ["x" * 40, "x" * 40, "x" * 20]
    assert printed(io.StringIO(), wide=True) == "x" * 100 + "\n"


# Breaks if what a program wrote can move the cursor, change colours or set the title of the reader's terminal.
@pytest.mark.parametrize("make", [Text, str, lambda text: Panel(Text(text)), lambda text: Fitting(ONE, [[Text(text)]])])
def test_a_text_cannot_control_the_terminal(make: Callable[[str], RenderableType]) -> None:
    stream = Terminal()
    console(stream).print(make("a\x1b]0;title\x07b\x9b2Jc"), markup=False)
    assert "\x1b]0" not in stream.getvalue()
    assert "\x9b" not in stream.getvalue()
    assert "a�]0;title" in stream.getvalue()


@pytest.mark.parametrize("sign", [*"\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"])
def test_a_text_cannot_turn_the_order_of_what_is_around_it(sign: str) -> None:
    """Breaks if a message can be read as another one, because its characters are shown in another order."""
    stream = Terminal()
    console(stream).print(Text(f"a{sign}b"))
    assert stream.getvalue() == "a�b\n"
