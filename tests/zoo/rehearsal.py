"""`holdfast rehearse` for a program of the zoo, and whether it found what the table promises."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.zoo.check import fresh
from tests.zoo.environments import environment
from tests.zoo.program import Program, variables

HOLDFAST = Path(sys.executable).parent / "holdfast"
# By promise, the verdicts that keep it. A program that only resumes may end with other losses and weights.
KEPT = {
    "exact": ("exact",),
    "tolerance": ("exact", "within-tolerance"),
    "resumes": ("exact", "within-tolerance", "differs", "not-proved"),
}


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a rehearsal found: its verdict, its headline, and what was not tried."""

    verdict: str
    headline: str
    not_tried: tuple[str, ...]
    keeps: bool
    """True if the program keeps its promise."""
    report: Mapping[str, Any] | None = None
    """All that `holdfast rehearse` said; None if it said nothing."""


def rehearse(program: Program, place: Path) -> Rehearsed:
    """Rehearse the program; it works in `place`, and leaves report.json and rehearse.log there."""
    work, report, log = place / "work", place / "report.json", place / "rehearse.log"
    env = variables(environment(program.group), program)
    fresh(program, work, env)
    with report.open("w") as output, log.open("w") as lines:
        subprocess.run(command(program, work), cwd=work, env=env, stdout=output, stderr=lines, check=False)
    try:
        found = json.loads(report.read_text())
    except ValueError:
        return Rehearsed("none", log.read_text(errors="replace")[-1000:], (), keeps=False)
    verdict, not_tried = found["verdict"], tuple(found["notTried"])
    keeps = verdict["kind"] in KEPT[program.promise] and not not_tried
    return Rehearsed(verdict["kind"], verdict["headline"], not_tried, keeps, found)


def command(program: Program, work: Path) -> list[str]:
    """The command line of `holdfast rehearse`."""
    # Losses without steps cannot be compared, and the output is read once a second.
    tells = any("step}" in pattern or "{" not in pattern for pattern in program.patterns)  # without: a known name
    quiet = "1s" if tells else "300ms"
    options = ["--folder", str(program.folder_in(work)), "--quiet", quiet, "-o", "json"]
    options += [f"--progress={pattern}" for pattern in program.patterns if tells]
    options += [f"--exclude={pattern}" for pattern in program.exclude]
    options += [f"--ignore={pattern}" for pattern in program.ignore]
    options += ["--pattern", program.pattern] if program.pattern else []
    if program.promise == "tolerance":
        options.append(f"--tolerance={program.tolerance}")
    return [str(HOLDFAST), "rehearse", *options, "--", "sh", "-c", program.line(work)]
