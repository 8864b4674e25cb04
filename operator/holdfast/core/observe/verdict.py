"""The verdict: one JSON line that the launcher or the init container left as its termination message.

It comes from a user's container, so it is not trusted: its size and types are checked, and anything else gives None.
"""

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator
from pydantic.alias_generators import to_camel

from holdfast.api.attempt import EndReason
from holdfast.api.scalars import EXACT
from holdfast.core.observe.notices import NODE_SIGNS, NOTICE_REASONS
from holdfast_protocol.document import decode
from holdfast_protocol.hang import Hang
from holdfast_protocol.verdict import MOST_BYTES, REASON, UNKNOWN

# What only the cluster or the operator can know. Other jobs learn from some of these which nodes are bad.
_OF_OTHERS: Final = (frozenset(EndReason) | NODE_SIGNS | NOTICE_REASONS) - {
    EndReason.COMMAND_NOT_FOUND, EndReason.EXITED, EndReason.FENCED, EndReason.OUT_OF_MEMORY, EndReason.STALLED,
}  # fmt: skip


def _own(reason: str) -> str:
    return UNKNOWN if reason in _OF_OTHERS else reason


def _hang(told: object) -> Hang:
    return told if isinstance(told, Hang) else decode(Hang, told, "hang")


class Verdict(BaseModel):
    """Why the program ended, as its launcher reports it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    v: Literal[1]
    outcome: Literal["completed", "drained", "failed", "misconfigured", "fenced"]
    reason: Annotated[str, AfterValidator(_own)] = Field(UNKNOWN, pattern=f"^{REASON.pattern}$")
    message: str = Field("", max_length=MOST_BYTES)
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = Field(None, ge=0, le=EXACT)
    saved_step: int | None = Field(None, ge=0, le=EXACT)
    last_lines: tuple[str, ...] = Field((), max_length=64)
    peer: bool | None = None
    hang: Annotated[Hang, PlainValidator(_hang)] | None = None


def parse_verdict(termination_message: str) -> Verdict | None:
    """The verdict in the last line of a termination message, or None if there is none."""
    line = termination_message.strip().rpartition("\n")[2]
    if not line.startswith("{") or len(line) > MOST_BYTES:
        return None
    try:
        return Verdict.model_validate(json.loads(line))
    except (ValueError, RecursionError):  # ValidationError and JSONDecodeError are ValueErrors
        return None
