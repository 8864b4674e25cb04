"""The starts of a run, from the attempts in the job's status and the commits that they made. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.api.attempt import AttemptRecord, EndKind, EndReason
from holdfast.api.status import TrainingJobStatus
from holdfast_cli.rehearse.cluster.planning import BY_WRAPPER
from holdfast_cli.rehearse.cluster.wrapper import IN_SAVE, KILLED, NO_SAVE
from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.left import Interruption, Start
from holdfast_cli.rehearse.ran import Planned

_EXIT_CODE: Final = re.compile(r"\bexit code (\d+)")
_BY_ITSELF: Final = (EndKind.COMPLETED, EndKind.FAILURE, EndKind.MISCONFIGURED)

NotTried = dict[Interruption, str]


def starts_of(
    status: TrainingJobStatus, made: Sequence[Made], plan: Sequence[Planned], asked: Mapping[int, Interruption]
) -> tuple[list[Start], NotTried]:
    """The starts, and which interruptions were not tried. `asked`: of attempts that this command has interrupted."""
    starts = list[Start]()
    not_tried: NotTried = {}
    planned = {number: one.kind for number, one in enumerate(plan, 1)}
    for record in status.history:
        if record.started_at is None and record.kind not in _BY_ITSELF:
            continue
        wanted = planned.get(record.number)
        ended_by, why = _ended_by(record, wanted, asked.get(record.number))
        if wanted is not None and why:
            not_tried[wanted] = why
        starts.append(_start(record, ended_by, made))
    begun = {start.number for start in starts}
    for number, kind in planned.items():
        if number not in begun:
            not_tried.setdefault(kind, "the program came to its end before")
    return starts, not_tried


def _ended_by(
    record: AttemptRecord, wanted: Interruption | None, asked: Interruption | None
) -> tuple[Interruption | None, str]:
    """What has interrupted the attempt, None if it ended by itself; and why what was planned did not."""
    if record.kind in _BY_ITSELF:
        return None, "" if wanted is None else "the program came to its end before"
    if asked is not None:
        return asked, ""
    if wanted in BY_WRAPPER and (KILLED in record.message or record.reason == EndReason.KILLED):
        if NO_SAVE in record.message:
            return Interruption.CRASH, "no save began in time, so the program was killed between two saves"
        if wanted is Interruption.CRASH_IN_SAVE and IN_SAVE not in record.message:
            return Interruption.CRASH, "nothing shows that the program was killed in a save"
        return wanted, ""
    text = f"the cluster ended attempt {record.number} first: {record.reason}"
    return Interruption.LOST_NODE, text if wanted is not None else ""


def _start(record: AttemptRecord, ended_by: Interruption | None, made: Sequence[Made]) -> Start:
    before = [one for one in made if one.attempt < record.number]
    began = record.started_at or record.raised_at
    first = record.first_step_at
    return Start(
        number=record.number,
        ended_by=ended_by,
        exit_code=_exit_code(record) if ended_by is None else None,
        resumed=before[-1].step if before else None,
        has_resumed=bool(before),
        first=_first(record.first_step, before),
        last=record.last_step,
        seconds=max(0.0, (record.ended_at - began).total_seconds()),
        seconds_to_first=None if first is None else max(0.0, (first - began).total_seconds()),
    )


def _first(told: int | None, before: Sequence[Made]) -> int | None:
    """The first step, from the first one that the launcher has told: it looks once a second.

    In a new pod the program finds nothing that is newer than the last commit, so it cannot have begun later.
    """
    resumed = before[-1].step if before else 0
    return told if told is None or resumed is None else min(told, resumed + 1)


def _exit_code(record: AttemptRecord) -> int | None:
    """As the message says; None if it does not."""
    if record.kind is EndKind.COMPLETED:
        return 0
    found = _EXIT_CODE.search(record.message)
    return int(found[1]) if found else None
