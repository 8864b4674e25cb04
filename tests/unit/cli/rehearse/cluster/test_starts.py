"""The starts of a run on a cluster: what ended each of them, and what was not tried."""

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.status import TrainingJobStatus
from holdfast_cli.rehearse.cluster.planning import NEVER, attempts_of
from holdfast_cli.rehearse.cluster.starts import starts_of
from holdfast_cli.rehearse.cluster.wrapper import IN_SAVE, KILLED, NO_SAVE
from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.ran import Planned
from holdfast_cli.rehearse.schedule import Due, Seen

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ALL = [Planned(kind, Due(10 * number, 2 * number, 1.0, 30.0)) for number, kind in enumerate(Interruption, 1)]
MADE = [Made(seq, attempt, 10 * seq, "save", is_new=True, uploaded=1) for seq, attempt in ((1, 1), (2, 2), (3, 2))]


def record(number: int, kind: EndKind, reason: str, message: str = "", **more: Any) -> AttemptRecord:
    times = {"raised_at": BEGAN, "started_at": BEGAN, "ended_at": BEGAN + timedelta(seconds=20)}
    return AttemptRecord(number=number, tier="spot", kind=kind, reason=reason, message=message, **(times | more))


def status(*records: AttemptRecord) -> TrainingJobStatus:
    return TrainingJobStatus(history=records)


def test_each_attempt_is_a_start() -> None:
    found, not_tried = starts_of(
        status(
            record(1, EndKind.STOPPED, "MoveRequested", first_step=1, last_step=12),
            record(2, EndKind.INTERRUPTION, "Killed", f"SIGKILL\n{KILLED}", first_step=13, last_step=25),
            record(3, EndKind.INTERRUPTION, "Killed", f"SIGKILL\n{IN_SAVE}: /outputs/x", first_step=31, last_step=40,
                   first_step_at=BEGAN + timedelta(seconds=5)),
            record(4, EndKind.INTERRUPTION, "PodDeleted"),
            record(5, EndKind.COMPLETED, "Completed"),
        ),
        MADE, ALL, {1: Interruption.NOTICE, 4: Interruption.LOST_NODE},
    )  # fmt: skip
    assert not_tried == {}
    assert [start.ended_by for start in found] == [*Interruption, None]
    assert [start.exit_code for start in found] == [None] * 4 + [0]
    assert [start.resumed for start in found] == [None, 10, 30, 30, 30]
    assert [start.has_resumed for start in found] == [False, True, True, True, True]
    assert [start.first for start in found] == [1, 11, 31, None, None]  # the launcher saw step 13 first
    assert (found[2].first, found[2].last, found[2].seconds, found[2].seconds_to_first) == (31, 40, 20.0, 5.0)


def test_what_was_not_tried_says_why() -> None:
    found, not_tried = starts_of(
        status(
            record(1, EndKind.INTERRUPTION, "NodeGone"),
            record(2, EndKind.INTERRUPTION, "Killed", "the program was ended by SIGKILL"),
            record(3, EndKind.INTERRUPTION, "Killed", NO_SAVE),
            record(4, EndKind.FAILURE, "UserException", "the program ended with exit code 3: KeyError"),
        ),
        MADE, ALL, {},
    )  # fmt: skip
    assert [start.ended_by for start in found] == [
        Interruption.LOST_NODE,
        Interruption.CRASH,
        Interruption.CRASH,
        None,
    ]
    assert found[-1].exit_code == 3
    assert not_tried == {
        Interruption.NOTICE: "the cluster ended attempt 1 first: NodeGone",
        Interruption.CRASH_IN_SAVE: "no save began in time, so the program was killed between two saves",
        Interruption.LOST_NODE: "the program came to its end before",
    }


# Breaks if a plan for an attempt that never began is taken for done.
def test_an_attempt_without_a_program_is_no_start() -> None:
    found, not_tried = starts_of(
        status(
            record(1, EndKind.STOPPED, "AcquireTimeout", started_at=None),
            record(2, EndKind.COMPLETED, "Completed"),
        ),
        [], ALL[:1], {},
    )  # fmt: skip
    assert [start.number for start in found] == [2]
    assert not_tried == {Interruption.NOTICE: "the program came to its end before"}


def test_the_wrapper_kills_in_the_attempts_of_crashes() -> None:
    seen = [Seen(12.0 * number, 5 * number) for number in range(1, 6)]
    assert attempts_of(ALL, seen, has_folder=True) == {
        2: {"seconds": 0.0, "saves": 2, "step": 15, "pause": 1.0, "inSave": False, "patience": 30.0},
        3: {"seconds": 0.0, "saves": 2, "step": 25, "pause": 0.0, "inSave": True, "patience": 30.0},
    }
    unknown = [Planned(Interruption.CRASH, Due(None, 1, 1.0, 30.0))]
    assert attempts_of(unknown, seen, has_folder=True)[1]["step"] == NEVER


# Breaks if a program with Run is killed before it can have saved: no file in the pod shows its saves.
def test_without_a_folder_the_time_counts() -> None:
    seen = [Seen(12.0 * number, 5 * number) for number in range(1, 6)]
    found = attempts_of(ALL, seen, has_folder=False)
    assert [(one["seconds"], one["saves"], one["inSave"]) for one in found.values()] == [(24.0, 0, False)] * 2
