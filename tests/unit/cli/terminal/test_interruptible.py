"""Signals that end a command as Ctrl-C does."""

import signal

import pytest
import typer

from holdfast_cli.errors import ExitCode
from holdfast_cli.terminal.interruptible import interruptible


# Breaks if a signal ends the process before it has cleaned up, or if the handlers of before are lost.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interruption(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleaned = False
    with pytest.raises(typer.Exit) as ended, interruptible():
        try:
            signal.raise_signal(number)
        finally:
            cleaned = True
    assert cleaned
    assert ended.value.exit_code == ExitCode.INTERRUPTED
    assert signal.getsignal(number) == before
