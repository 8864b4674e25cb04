"""A member of a training on several nodes: where its launcher stands, and the order that it gets as answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from . import document as kind
from .document import REQUIRED, DocumentError, decode, to_text
from .verdict import MOST_BYTES, Verdict

VERSION = 1
READY: Final = "ready"
RUNNING: Final = "running"
WAIT: Final = "wait"
START: Final = "start"
REGROUP: Final = "regroup"
LEAVE: Final = "leave"
_FOLLOWED: Final = {READY: (START, LEAVE), RUNNING: (REGROUP,)}  # by state; any launcher may be told to wait
MOST_ATTEMPT: Final = 2**31 - 1
MOST_PORT: Final = 2**16 - 1
MOST_IMPORTS: Final = 32


@dataclass(frozen=True)
class MemberReport:
    """Where the launcher of one node stands."""

    pod_uid: str = kind.text(REQUIRED, most=64, form="[A-Za-z0-9._-]+")
    """UID of its pod."""
    attempt: int = kind.whole(REQUIRED, most=MOST_ATTEMPT)
    """Whose program it started last; 0: none yet."""
    state: Literal["ready", "running"] = kind.choice(REQUIRED, READY, RUNNING)
    """`ready`: no program runs, and the next one can start; or `running`: it works for the attempt. So it says too
    while `checkpoint.folder` is put back before the program, and is committed after it."""
    address: str = kind.text("", least=0, most=253, form="[A-Za-z0-9.:-]*")
    """If it is ready: the address at which the program of rank 0 can listen."""
    port: int = kind.whole(0, most=MOST_PORT)
    """If it is ready: the free port there."""
    verdict: Verdict | None = kind.part(Verdict)
    """If it is ready: the verdict on the last program."""
    imports: tuple[str, ...] = kind.texts(most=MOST_IMPORTS, characters=64, form="[A-Za-z_][A-Za-z0-9_]*")
    """Libraries that another process can import before the next program starts."""
    version: int = kind.version(VERSION)
    """Version of this document."""


@dataclass(frozen=True)
class MemberOrder:
    """What the launcher is to do."""

    do: Literal["wait", "start", "regroup", "leave"] = kind.choice(REQUIRED, WAIT, START, REGROUP, LEAVE)
    """`wait`: ask again; `start` a program; `regroup`: end the program for the next attempt; `leave`: end the pod."""
    attempt: int = kind.whole(0, most=MOST_ATTEMPT)
    """The attempt to start, or to regroup for."""
    address: str = kind.text("", least=0, most=253)
    """To start: the address at which the program of rank 0 listens."""
    port: int = kind.whole(0, most=MOST_PORT)
    """To start: its port."""
    predecessor: int | None = kind.whole(least=1)
    """To start: the attempt that still trains; the program waits until it has given up the checkpoints."""
    final: bool = kind.flag()
    """To regroup: the order after it will be to leave, because no attempt follows."""
    version: int = kind.version(VERSION)
    """Version of this document."""


def read_report(given: object) -> MemberReport:
    """The report in decoded JSON. DocumentError names the field that is wrong."""
    found = decode(MemberReport, given)
    if found.state == READY and not found.port:
        raise DocumentError("port", found.port, f"from 1 to {MOST_PORT}, of a launcher that is ready")
    if found.verdict is not None and len(to_text(found.verdict)) > MOST_BYTES:
        raise DocumentError("verdict", found.verdict, f"at most {MOST_BYTES} bytes")
    return found


def read_order(given: object, report: MemberReport) -> MemberOrder:
    """The order in the answer to `report`. DocumentError if it cannot be read, or cannot be followed in that state."""
    found = decode(MemberOrder, given)
    if found.do == WAIT:
        return found
    followed = _FOLLOWED[report.state]
    if found.do not in followed:
        raise DocumentError("do", found.do, f"{' or '.join((*followed, WAIT))}, for a launcher that is {report.state}")
    if found.do != LEAVE and found.attempt <= report.attempt:
        raise DocumentError("attempt", found.attempt, f"above {report.attempt}")
    if found.do == START:
        if not found.address or not found.port:
            raise DocumentError("address", f"{found.address}:{found.port}", "an address and a port from 1")
        if found.predecessor is not None and found.predecessor >= found.attempt:
            raise DocumentError("predecessor", found.predecessor, f"from 1 to {found.attempt - 1}")
    return found
