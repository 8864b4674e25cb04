"""The findings of `holdfast check`, and how they are shown."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.markup import escape

from holdfast.api.errors import SpecError, shown


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"  # the object would be refused
    WARNING = "warning"  # the object would be accepted, but would not work well
    OK = "ok"


_MARKS = {
    Severity.ERROR: ("✗", "error", "bold red"),
    Severity.WARNING: ("!", "warning", "yellow"),
    Severity.OK: ("✓", "ok", "green"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `field` is a path in the object, or the subject of the finding."""

    severity: Severity
    field: str
    message: str


@dataclass(slots=True)
class Report:
    """The findings about one object of a file; `checked` is false for one that is not Holdfast's."""

    name: str
    checked: bool = True
    findings: list[Finding] = field(default_factory=list)
    file: str = ""

    def error(self, where: str, message: str) -> None:
        self.findings.append(Finding(Severity.ERROR, where, message))

    def warn(self, where: str, message: str) -> None:
        self.findings.append(Finding(Severity.WARNING, where, message))

    def note(self, where: str, message: str) -> None:
        self.findings.append(Finding(Severity.OK, where, message))

    def problems(self, errors: Iterable[SpecError]) -> None:
        """Add the problems of the schema and its rules."""
        for error in errors:
            found = "" if error.value is None else f"{shown(error.value)}: "
            hint = f" ({error.hint})" if error.hint else ""
            self.error(error.field or "object", f"{found}{error.allowed}{hint}")

    @property
    def refused(self) -> bool:
        """True if the object would not be accepted."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the findings: marks and colours on a terminal, words elsewhere; the file if there are several."""
    several = len({report.file for report in reports}) > 1
    for report in reports:
        accepted = "would be accepted" if report.checked else "not an object of Holdfast, not checked"
        verdict = "would be refused" if report.refused else accepted
        place = f" in {escape(report.file)}" if several else ""
        console.print(f"[bold]{escape(report.name)}[/bold]{place}: {verdict}", soft_wrap=True)
        for finding in report.findings:
            mark, word, style = _MARKS[finding.severity]
            start = f"[{style}]{mark}[/]" if console.is_terminal else f"{word}:"
            console.print(f"  {start} {escape(finding.field)}: {escape(finding.message)}", soft_wrap=True)


def to_objects(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """The findings for programs."""
    return [
        {
            "object": report.name,
            "file": report.file,
            "checked": report.checked,
            "refused": report.refused,
            "findings": [asdict(finding) for finding in report.findings],
        }
        for report in reports
    ]
