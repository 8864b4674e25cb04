"""The verdict: one JSON line that the launcher or the init container left as its termination message.

It comes from a user's container, so it is not trusted: its size and types are checked, and anything else gives None.
"""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.api.scalars import EXACT
from holdfast.core.observe.hang import Hang


class Verdict(BaseModel):
    """Why the program ended, as its launcher reports it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    v: Literal[1]
    outcome: Literal["completed", "drained", "failed", "misconfigured", "fenced"]
    reason: str = Field("Unknown", max_length=64, pattern=r"^[A-Za-z0-9]+$")
    message: str = Field("", max_length=4096)
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = Field(None, ge=0, le=EXACT)
    saved_step: int | None = Field(None, ge=0, le=EXACT)
    last_lines: tuple[str, ...] = Field((), max_length=64)
    peer: bool | None = None
    hang: Hang | None = None


def parse_verdict(termination_message: str) -> Verdict | None:
    """The verdict in the last line of a termination message, or None if there is none."""
    line = termination_message.strip().rpartition("\n")[2]
    if not line.startswith("{") or len(line) > 4096:
        return None
    try:
        return Verdict.model_validate(json.loads(line))
    except (ValueError, RecursionError):  # ValidationError and JSONDecodeError are ValueErrors
        return None
