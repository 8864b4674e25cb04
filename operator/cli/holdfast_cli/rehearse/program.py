"""`Program`: a program that is rehearsed on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """Its command, and what a job would say of it.

    `folder`: `checkpoint.folder`, as an absolute path; None for a program with `Run`. `patterns`, `exclude` and
    `pattern`: as in a job. `grace`: seconds from a notice to the end. `quiet`: seconds without a write after which a
    save is committed. `steps` and `every`: of a program with `Run`, the goal and the steps between two saves.
    `longest`: seconds that one run may take.
    """

    command: Sequence[str]
    folder: Path | None
    patterns: Sequence[str] = ()
    exclude: Sequence[str] = ()
    pattern: str | None = None
    grace: float = 30.0
    quiet: float = 2.0
    steps: int | None = None
    every: int | None = None
    longest: float = 3600.0
