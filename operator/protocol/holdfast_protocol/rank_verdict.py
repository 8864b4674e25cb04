"""What one rank of a program wrote last: the library in the user's image tells the launcher. A file for each rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from . import document as kind
from .document import REQUIRED, DocumentError, decode, read_json, readable

VERSION = 1
MOST_BYTES: Final = 64 * 1024  # of the file: a program may write it too
MOST_MESSAGE: Final = 2000  # characters
MOST_REASON: Final = 256
MOST_PATH: Final = 4096

# "running" is not an end: it stays if the process ends without a word of its Run.
Result = Literal["running", "saved", "left", "completed", "failed", "fenced", "misconfigured"]


@dataclass(frozen=True)
class RankVerdict:
    """What a rank says of its end."""

    rank: int = kind.whole(REQUIRED)
    """Its number."""
    result: Result = kind.choice(REQUIRED, "running", "saved", "left", "completed", "failed", "fenced", "misconfigured")
    """How it ended; `running`: it has not, or its process ended without a word."""
    reason: str = kind.text("", least=0, most=MOST_REASON)
    """Why, in one word."""
    message: str = kind.text("", least=0, most=MOST_MESSAGE)
    """Why, for people."""
    step: int | None = kind.whole()
    """The last step."""
    saved_step: int | None = kind.whole()
    """The step of the newest checkpoint."""
    at: float = kind.seconds(0.0)
    """When it was written, in seconds since 1970."""
    pid: int = kind.whole(0)
    """Of its process; 0 if it is not known."""
    python: str = kind.text("", least=0, most=MOST_PATH)
    """What runs it, and has the library."""
    version: int = kind.version(VERSION, name="v")
    """Version of this document."""


def to_text(verdict: RankVerdict) -> str:
    """The verdict as one line of JSON, whose texts are cut to what a reader takes."""
    reason, message, python = map(readable, (verdict.reason, verdict.message, verdict.python))
    return kind.to_text(
        replace(verdict, reason=reason[:MOST_REASON], message=message[:MOST_MESSAGE], python=python[:MOST_PATH])
    )


def read(content: bytes | str) -> RankVerdict:
    """The verdict in a file, or in a line. DocumentError names the field that is wrong."""
    if len(content) > MOST_BYTES:
        raise DocumentError("the file", content, f"at most {MOST_BYTES} bytes")
    return decode(RankVerdict, read_json(content))
