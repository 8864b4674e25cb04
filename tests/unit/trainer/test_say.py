"""Lines for people never end a training."""

import sys

import pytest

from holdfast_train.say import say


def test_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("saved")
    assert capsys.readouterr().err == "holdfast: saved\n"


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_broken_stderr_is_ignored(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise error

    monkeypatch.setattr(sys, "stderr", Broken())
    say("saved")
