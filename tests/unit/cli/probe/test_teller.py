"""What the probes do now, on a terminal and in a file."""

from io import StringIO

from holdfast_cli.probe.teller import Teller
from holdfast_cli.terminal.console import SafeConsole

STATES = ("Acquiring", "Running, step 1/60", "Running, step 2/60", "Running, step 2/60", "measured")


def shown(*, terminal: bool) -> str:
    out = StringIO()
    with Teller(SafeConsole(file=out, force_terminal=terminal, width=80)) as teller:
        for state in STATES:
            teller.tell("vit-probe-spot", state)
    return out.getvalue()


# Breaks if a log of CI gets a line for every step.
def test_a_file_gets_a_line_for_each_phase() -> None:
    assert shown(terminal=False).splitlines() == [
        "vit-probe-spot: Acquiring",
        "vit-probe-spot: Running, step 1/60",
        "vit-probe-spot: measured",
    ]


def test_a_terminal_sees_every_step() -> None:
    text = shown(terminal=True)
    assert text.count("step 2/60") == 1
    assert "step 1/60" in text
