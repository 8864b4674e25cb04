"""How findings are shown."""

import io

from rich.console import Console

from holdfast.api.errors import SpecError
from holdfast_cli.check.findings import Report, show


def shown(report: Report, terminal: bool) -> str:
    stream = io.StringIO()
    show([report], Console(file=stream, force_terminal=terminal, no_color=True, width=40))
    return stream.getvalue()


def report() -> Report:
    found = Report("trainingjob/a")
    found.problems([SpecError("spec.goal.steps", 0, "must be at least 1", "try 1")])
    found.warn("spec.trainer.env[0]", "Secret [b]a[/b] is missing")
    found.note("schema", "fine")
    return found


def test_plain_lines_elsewhere_never_wrap_and_never_eat_brackets() -> None:
    assert shown(report(), terminal=False).splitlines() == [
        "trainingjob/a: would be refused",
        "  error: spec.goal.steps: 0: must be at least 1 (try 1)",
        "  warning: spec.trainer.env[0]: Secret [b]a[/b] is missing",
        "  ok: schema: fine",
    ]


def test_marks_on_a_terminal() -> None:
    text = shown(report(), terminal=True)
    assert "✗" in text
    assert "✓" in text


def test_warnings_alone_do_not_refuse() -> None:
    found = Report("a")
    found.warn("x", "y")
    assert not found.refused
