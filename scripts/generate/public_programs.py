"""docs/reference/public-programs.md and tests/zoo/README.md: the tables of verdicts, from noted rehearsals."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from scripts.generate.generated_part import fill
from tests.zoo.program import Program
from tests.zoo.results import noted
from tests.zoo.table import PROGRAMS

SOURCE = "tests/zoo/results.json"
MOST = 120  # characters of a headline that are shown
KINDS = ("notice", "crash", "crash-in-save", "lost-node")


def page(text: str) -> str:
    """The page of the reference with the table of today between its marks."""
    rows = [_row(program, result) for program, result in _found()]
    head = (
        "| program | package | verdict | what is equal, or what differs and why | steps again |",
        "|---|---|---|---|---|",
    )
    return fill(text, SOURCE, "".join(f"{line}\n" for line in ("", _summary(), "", *head, *rows, "")))


def readme(text: str) -> str:
    """The page of the zoo with the short table of today between its marks."""
    rows = [f"| `{program.name}` | {_verdict(result)} | {result['date']} |" for program, result in _found()]
    head = ("| program | verdict | date |", "|---|---|---|")
    return fill(text, SOURCE, "".join(f"{line}\n" for line in ("", _summary(), "", *head, *rows, "")))


def _found() -> list[tuple[Program, Mapping[str, Any]]]:
    results = noted()
    return [(program, results[name]) for name, program in PROGRAMS.items() if name in results]


def _summary() -> str:
    counts = Counter(result["verdict"] for _, result in _found())
    told = ", ".join(f"{count} `{kind}`" for kind, count in counts.most_common())
    missing = [f"`{name}`" for name in PROGRAMS if name not in noted()]
    more = f" Not rehearsed yet: {', '.join(missing)}." if missing else ""
    return f"{sum(counts.values())} programs: {told}.{more}"


def _verdict(result: Mapping[str, Any]) -> str:
    not_tried = f", without {' and '.join(result['notTried'])}" if result["notTried"] else ""
    return f"{result['verdict']}{not_tried}"


def _row(program: Program, result: Mapping[str, Any]) -> str:
    words = result["headline"].partition(": ")[2] or result["headline"]
    cause = program.cause or program.why.removesuffix(".")
    words = words if result["verdict"] == "exact" else f"{_short(words)}. Cause: {cause}"
    package = f"{program.package or program.name} {result['version']}"
    again = [result["stepsAgain"].get(kind) for kind in KINDS]
    steps = ", ".join("?" if count is None else str(count) for count in again)
    cells = (f"`{program.name}`", package, _verdict(result), words, "" if set(again) == {None} else steps)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _short(words: str) -> str:
    """A headline without its numbers, if it is long."""
    return words if len(words) <= MOST else words.partition(": ")[0]
