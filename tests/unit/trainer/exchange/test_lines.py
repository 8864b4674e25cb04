"""Lines with names of strangers, and streams that cannot write every letter."""

import io
import sys

import pytest

from holdfast_train.exchange.lines import say, show


# Breaks if a name drives the terminal of its reader, or makes a line that looks as if this program had written it.
def test_a_name_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    show("a\x1b[2Jb\nok: c\td\udcff")
    say("a\rb\x07")
    assert capsys.readouterr() == ("a?[2Jb ok: c d\\udcff\n", "a b?\n")


# Breaks if a command fails because its output goes into a file in a machine without a locale.
def test_a_stream_without_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    show("größer")
    sys.stdout.flush()
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"
