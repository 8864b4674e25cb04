"""The verdict that a launcher or an init container left as its termination message, as the operator takes it.

It comes from a user's container, so it is not trusted: its size and types are checked, and anything else gives None.
"""

from dataclasses import replace
from typing import Final

from holdfast.api.attempt import EndReason
from holdfast.core.observe.notices import NODE_SIGNS, NOTICE_REASONS
from holdfast_protocol.document import DocumentError, decode, read_json
from holdfast_protocol.verdict import MOST_BYTES, UNKNOWN, Verdict

# What only the cluster or the operator can know. Other jobs learn from some of these which nodes are bad.
_OF_OTHERS: Final = (frozenset(EndReason) | NODE_SIGNS | NOTICE_REASONS) - {
    EndReason.COMMAND_NOT_FOUND, EndReason.EXITED, EndReason.FENCED, EndReason.OUT_OF_MEMORY, EndReason.STALLED,
}  # fmt: skip


def parse_verdict(termination_message: str) -> Verdict | None:
    """The verdict in the last line of a termination message, or None if there is none."""
    line = termination_message.strip().rpartition("\n")[2]
    if not line.startswith("{") or len(line) > MOST_BYTES:
        return None
    try:
        return trusted(decode(Verdict, read_json(line)))
    except DocumentError:
        return None


def trusted(told: Verdict) -> Verdict:
    """The verdict without a reason that only others can know."""
    return replace(told, reason=UNKNOWN) if told.reason in _OF_OTHERS else told
