"""The verdict: one line of JSON that a launcher or an init container leaves as termination message when it ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from . import document as kind
from .document import REQUIRED, readable, to_text
from .hang import Hang

VERSION = 1
MOST_BYTES = 4096  # a kubelet cuts a longer termination message
WRITER_SECONDS = 60.0  # how long a verdict waits for a checkpoint that is on its way when the program has ended
REASON = re.compile(r"[A-Za-z0-9]{1,64}")
UNKNOWN = "Unknown"  # in place of a reason that has another form
MESSAGE_CHARACTERS, LINES_KEPT = 600, 20  # that a writer keeps
ROOT_CAUSE = "Root Cause: "  # begins the line on the rank that failed first, as torchrun calls it

# The exit code of the process that failed first: in ROOT_CAUSE's line, or in torchrun's own report.
FIRST_CODE = re.compile(r"Root Cause(?:(?!exitcode).)*exitcode *: *(-?\d{1,3})\b", re.DOTALL)

Outcome = Literal["completed", "drained", "failed", "misconfigured", "fenced"]


@dataclass(frozen=True)
class Verdict:
    """Why the program ended. None: not known."""

    outcome: Outcome = kind.choice(REQUIRED, "completed", "drained", "failed", "misconfigured", "fenced")
    """`completed`, `failed`, `drained` (it was told to leave), `misconfigured` (it can never work), `fenced`."""
    reason: str = kind.text(UNKNOWN, form=REASON.pattern)
    """Why, in one word."""
    message: str = kind.text("", least=0, most=MOST_BYTES)
    """Why, for people."""
    exit_code: int | None = kind.whole(least=-kind.EXACT)
    """Exit code of the program; not set if a signal ended it."""
    signal: int | None = kind.whole()
    """The signal that ended it."""
    step: int | None = kind.whole()
    """The last step."""
    saved_step: int | None = kind.whole()
    """The step of the newest checkpoint."""
    last_lines: tuple[str, ...] = kind.texts(most=64, characters=MOST_BYTES, lines=True)
    """What a program that failed has printed last."""
    peer: bool | None = kind.flag(None)
    """True: a program that failed has lost another rank; not set if no rank has said why."""
    hang: Hang | None = kind.part(Hang)
    """What the ranks of a program that hung did."""
    version: int = kind.version(VERSION, name="v")
    """Version of this document."""


def shorten(verdict: Verdict) -> Verdict:
    """The verdict with at most MOST_BYTES as a line. The oldest lines go first, then half of the message."""
    message, lines = verdict.message.replace("\n", " "), verdict.last_lines[-LINES_KEPT:]
    small = replace(verdict, message=readable(message)[:MESSAGE_CHARACTERS], last_lines=tuple(map(readable, lines)))
    while len(to_text(small)) >= MOST_BYTES:
        if small.last_lines:
            small = replace(small, last_lines=small.last_lines[1:])
        else:
            small = replace(small, message=small.message[: len(small.message) // 2])
    return small


def to_line(verdict: Verdict) -> bytes:
    """The verdict as a termination message: one line of JSON of at most MOST_BYTES."""
    return to_text(shorten(verdict)).encode("ascii") + b"\n"
