"""The verdict: a wrong one turns a preemption into a failure, or unfinished training into completion."""

from dataclasses import replace

import pytest

from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_train.pod.launcher.verdict import End, classify, exit_code


def rank(
    result: str, *, number: int = 0, reason: str = "", message: str = "", at: float = 50.0, saved: int | None = None
) -> RankVerdict:
    return RankVerdict(number, result, reason, message or f"{result} by {number}", 120, saved, at)


def end(
    code: int | None = 0,
    number: int | None = None,
    told: float | None = None,
    ranks: tuple[RankVerdict, ...] = (),
    lines: tuple[str, ...] = (),
    *,
    regrouped: float | None = None,
    stalled: str = "",
) -> End:
    return End(code, number, told, ranks, lines, regrouped_at=regrouped, stalled=stalled)


CLASSES = [
    # Without the library: exit code, signal and whether the launcher got SIGTERM.
    (end(0), "completed", "Completed"),
    (end(0, told=10.0), "drained", "LeftWithoutSaving"),
    (end(1, told=10.0), "drained", "LeftWithoutSaving"),
    (end(143, told=10.0), "drained", "LeftWithoutSaving"),
    (end(None, 15, told=10.0), "drained", "LeftWithoutSaving"),
    (end(1), "failed", "UserException"),
    (end(None, 9), "failed", "Signal9"),
    (end(None, 11), "failed", "Signal11"),
    (end(1, lines=("torch.OutOfMemoryError: CUDA out of memory.",)), "failed", "OutOfMemory"),
    (end(1, lines=("MemoryError",)), "failed", "OutOfMemory"),
    (end(1, lines=("the user wrote about memory",)), "failed", "UserException"),
    # A training that hung, unless a rank has said why it failed, or everything was saved before.
    (end(None, 9, stalled="no step"), "failed", "Stalled"),
    (end(None, 9, stalled="no step", ranks=(rank("running"),)), "failed", "Stalled"),
    (end(None, 9, stalled="no step", ranks=(rank("failed", reason="ValueError"),)), "failed", "ValueError"),
    # The launcher ends the ranks of a training that hangs: what one says of the interruption of another is no cause.
    (end(None, 9, stalled="no step", ranks=(rank("failed", message="Connection reset by peer"),)), "failed", "Stalled"),
    (end(None, 9, stalled="no step", ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    # With it, under torchrun (always 1) and without.
    (end(1, told=10.0, ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    (end(0, ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    (end(0, ranks=(rank("left"),)), "drained", "LeftWithoutSaving"),
    (end(1, told=10.0, ranks=(rank("saved", saved=120), rank("failed", number=1))), "drained", "SavedAndLeft"),
    (end(1, ranks=(rank("failed", reason="UserException"),)), "failed", "UserException"),
    (end(1, ranks=(rank("failed", reason="OutOfMemory"),)), "failed", "OutOfMemory"),
    (end(1, ranks=(rank("failed", reason="StorageUnreachable"),)), "failed", "StorageUnreachable"),
    # The exception came first, SIGTERM while torchrun was still clearing up: the user's failure stays one.
    (end(1, told=60.0, ranks=(rank("failed", reason="UserException", at=50.0),)), "failed", "UserException"),
    (end(1, told=40.0, ranks=(rank("failed", reason="UserException", at=50.0),)), "drained", "LeftWithoutSaving"),
    (end(76, ranks=(rank("fenced", reason="Fenced"),)), "fenced", "Fenced"),
    (end(76, told=10.0, ranks=(rank("fenced", reason="Fenced"),)), "fenced", "Fenced"),
    (end(78, ranks=(rank("misconfigured", reason="StorageDenied"),)), "misconfigured", "StorageDenied"),
    (end(0, ranks=(rank("completed", reason="AlreadyComplete"),)), "completed", "AlreadyComplete"),
    # After the end of training the program may export a model: it is complete when that is done.
    (end(0, ranks=(rank("completed", reason="Completed"),)), "completed", "Completed"),
    (end(0, told=10.0, ranks=(rank("completed", reason="Completed"),)), "completed", "Completed"),
    (end(1, ranks=(rank("completed", reason="Completed"),)), "failed", "UserException"),
    (end(None, 9, ranks=(rank("completed", reason="Completed"),)), "failed", "Signal9"),
    (end(1, told=10.0, ranks=(rank("completed", reason="Completed"),)), "drained", "SavedAndLeft"),
    (end(None, 15, told=10.0, ranks=(rank("completed", reason="Completed"),)), "drained", "SavedAndLeft"),
    # A program that catches what ended its Run, or ends inside of it, has not completed its training.
    (end(0, ranks=(rank("failed", reason="StorageUnreachable"),)), "failed", "StorageUnreachable"),
    (end(0, ranks=(rank("failed", reason="UserException"),)), "failed", "UserException"),
    (end(0, ranks=(rank("misconfigured", reason="StorageDenied"),)), "misconfigured", "StorageDenied"),
    (end(0, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "RunNotEnded"),
    (end(0, ranks=(rank("completed"), rank("running", number=1, reason="RunNotEnded"))), "completed", "Completed"),
    (end(3, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "UserException"),
    (end(None, 9, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "Signal9"),
    (end(0, told=10.0, ranks=(rank("running", reason="RunNotEnded", at=5.0),)), "drained", "LeftWithoutSaving"),
    (End(127, None, None, (), (), ("CommandNotFound", "no such program")), "misconfigured", "CommandNotFound"),
    # Killed because the next attempt begins: what came before that says more, what came after it says nothing.
    (end(None, 9, regrouped=60.0), "failed", "Regrouped"),
    (end(None, 9, regrouped=40.0, ranks=(rank("failed", reason="UserException", at=50.0),)), "failed", "Regrouped"),
    (end(None, 9, regrouped=60.0, ranks=(rank("failed", reason="OutOfMemory", at=50.0),)), "failed", "OutOfMemory"),
    (end(None, 9, regrouped=60.0, ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    (end(None, 9, regrouped=60.0, ranks=(rank("completed", reason="Completed"),)), "failed", "Regrouped"),
    (end(None, 9, told=55.0, regrouped=60.0), "drained", "LeftWithoutSaving"),
    (end(1, regrouped=60.0), "failed", "UserException"),
]


@pytest.mark.parametrize(("ended", "outcome", "reason"), CLASSES)
def test_classification(ended: End, outcome: str, reason: str) -> None:
    verdict = classify(ended)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert verdict.message


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (end(0), 0),
        (end(3), 3),
        (end(None, 9), 137),
        (end(1, told=10.0), 1),
        (end(1, told=10.0, ranks=(rank("saved", saved=120),)), 0),
        (end(None, 9, regrouped=60.0), 137),
    ],
)
def test_exit_code(ended: End, code: int) -> None:
    assert exit_code(classify(ended)) == code


def test_a_hang_has_no_last_lines() -> None:
    found = classify(end(None, 9, stalled="no step", lines=("step 3", "step 4")))
    assert (found.message, found.last_lines) == ("no step", ()), "they would hide the message"


def test_steps_are_the_ranks_newest() -> None:
    verdict = classify(end(0, ranks=(rank("saved", saved=100), rank("saved", number=1, saved=None))))
    assert (verdict.step, verdict.saved_step) == (120, 100)


@pytest.mark.parametrize(
    ("code", "lines", "words"),
    [
        (3, (), "3"),
        (139, ("last",), "139 (128 + SIGSEGV): last"),
        (255, (), "255"),
        (1, ("last", "Root Cause: rank 1, exitcode: 42 (pid: 3)"), "1: last"),
        (1, ("last", "Root Cause: rank 1, exitcode: -11 (pid: 3)"), "1; rank 1 was ended by SIGSEGV: last"),
        (1, ("Root Cause: process 1, exitcode: -9",), "1; process 1 was ended by SIGKILL"),
        (1, ("ValueError: no", "terminate called without an active exception"), "1: ValueError: no"),
        (1, ("ValueError: no", "UserWarning: resource_tracker: 1 leaked", "  warnings.warn('"), "1: ValueError: no"),
    ],
)
def test_the_message_names_the_signal(code: int, lines: tuple[str, ...], words: str) -> None:
    """Breaks if a person has to know that 139 is a segmentation fault, or that of a rank is not said."""
    assert classify(end(code, lines=lines)).message == f"the program ended with exit code {words}"


WORKER = "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed."


@pytest.mark.parametrize(
    ("message", "kills", "reason", "peer"),
    [
        (None, 0, "Signal9", None),
        (None, 1, "OutOfMemory", False),
        (WORKER, 1, "OutOfMemory", False),
        (WORKER, 0, "UserException", False),
        ("Connection reset by peer", 2, "OutOfMemory", False),  # another rank of this node was killed
        ("ValueError: this batch is bad", 1, "UserException", False),  # a process whose end the program survived
    ],
)
def test_a_process_that_the_kernel_killed_for_its_memory(
    message: str | None, kills: int, reason: str, peer: bool | None
) -> None:
    """Breaks if memory that ran out on one node of several is an interruption, after which the same happens again."""
    ranks = (replace(rank("failed", reason="UserException"), message=message),) if message else ()
    found = classify(End(None, 9, None, ranks, (), oom_kills=kills))
    assert (found.outcome, found.reason, found.peer) == ("failed", reason, peer)
    assert found.message


RESET = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1234"


def test_the_cause_is_the_first_rank_that_failed_by_itself() -> None:
    """Breaks if a rank of the same node that lost its connection hides the error: the failure would count as an
    interruption."""
    own = replace(rank("failed", number=1, at=50.0), message="ValueError: this batch is bad")
    later = replace(rank("failed", number=2, at=51.0), message="ValueError: another one")
    peer = replace(rank("failed", number=0, at=49.0), message=RESET)
    found = classify(End(1, None, None, (peer, later, own), ("Connection reset by peer",)))
    assert (found.message, found.peer) == ("ValueError: this batch is bad", False)
    found = classify(End(1, None, None, (peer,), ("ValueError: of a thread",)))
    assert (found.message, found.peer) == (RESET, True)
    assert classify(End(1, None, None, (), ("Connection reset by peer",))).peer is None
