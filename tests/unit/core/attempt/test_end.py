"""How long a job waits after an attempt that gained nothing."""

from datetime import timedelta

import pytest
from tests.support.decisions.histories import record
from tests.support.decisions.running_gangs import running
from tests.support.decisions.snapshots import (
    at,
    attempt,
    container,
    ended,
    job,
    settled,
    snapshot,
    status,
    verdict,
)

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.api.status import Phase
from holdfast.core.observe.snapshot import Refusal
from holdfast.core.pod_manifest import program


def delay_after(interruptions, exit_code):
    """The delay before the next attempt after so many interruptions in a row, of which the newest has this exit
    code."""
    decided = settled(
        snapshot(job(status(attempt(fenced=True), fruitless_interruptions=interruptions - 1)), ended(1, exit_code))
    ).status
    return decided.current.retry_at - decided.history[-1].ended_at


def test_after_many_interruptions_of_the_platform_the_delay_grows_to_an_hour():
    killed_from_outside = 137
    minutes = [
        round(delay_after(interruptions, killed_from_outside) / timedelta(minutes=1))
        for interruptions in (6, 8, 9, 10, 12, 19)
    ]
    assert minutes == [5, 5, 10, 20, 60, 60]


def after(*seen, history=(), refusal=None, state=AttemptState.RUNNING):
    return settled(snapshot(job(status(attempt(2, state), history=history)), *seen, refusal=refusal)).status


RAN = (record(number=1, started_at=at(-9000), kind=EndKind.INTERRUPTION),)


def at_once(exit_code, message, reason="Error"):
    """An attempt whose trainer ended two seconds after its start."""
    trainer = container(ended=True, started_at=at(-2), exit_code=exit_code, message=message, reason=reason)
    return ended(2, exit_code, trainer=trainer)


@pytest.mark.parametrize("reason", ["StorageDenied", "StorageNotFound"])
def test_storage_that_worked_once_does_not_end_a_job_when_it_refuses(reason):
    """Breaks if a key that is rotated while a node is lost ends a training of months."""
    refused = at_once(78, verdict("misconfigured", reason))
    assert after(refused, state=AttemptState.STARTING).phase is Phase.FAILED
    later = after(refused, history=RAN, state=AttemptState.STARTING)
    assert not later.phase.final
    assert later.history[-1].kind is EndKind.INTERRUPTION
    assert later.current.avoid_nodes == ()  # another node would not reach it either


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (at_once(127, verdict("misconfigured", "CommandNotFound")), "CommandNotFound"),
        (at_once(126, verdict("misconfigured", "CommandNotExecutable")), "CommandNotExecutable"),
        (at_once(1, "Fatal Python error\nModuleNotFoundError: No module named 'encodings'"), "PythonIncomplete"),
        (at_once(128, 'exec: "python3": executable file not found in $PATH', "StartError"), "CommandNotFound"),
    ],
)
def test_an_image_that_worked_once_does_not_end_a_job_when_it_does_not_work(refused, reason):
    """Breaks if a tag that was given to a wrong image, or half an image on a node, ends a training of months."""
    first = after(refused, state=AttemptState.STARTING)
    assert (first.phase, first.reason) == (Phase.FAILED, reason)
    later = after(refused, history=RAN, state=AttemptState.STARTING)
    assert not later.phase.final
    assert (later.history[-1].kind, later.history[-1].reason) == (EndKind.INTERRUPTION, reason)
    assert later.current.avoid_nodes == ("n1",)  # another node may have another image


# Breaks if attempts of the program before an edit speak for the edited one, or if an edit takes away the program's own.
@pytest.mark.parametrize(("ran", "failed"), [(program(job()), False), ("edited", True)])
def test_what_worked_once_is_said_of_a_program_not_of_a_job(ran, failed):
    refused = at_once(127, verdict("misconfigured", "CommandNotFound"))
    before = job(status(attempt(2, AttemptState.STARTING), history=RAN, ran_program=ran))
    assert settled(snapshot(before, refused)).status.phase.final is failed


@pytest.mark.parametrize(("made_for", "known"), [("old", "old"), ("", program(job()))])
def test_an_attempt_whose_trainer_ran_says_of_which_program(made_for, known):
    """Breaks if an edit while the pod leaves makes its end speak for the edited program."""
    left = ended(2, 1, program=made_for)
    assert settled(snapshot(job(status(attempt(2))), left)).status.ran_program == known


def test_attempts_that_got_no_node_do_not_show_that_the_program_ran():
    """Breaks if a long wait for nodes makes a first refusal for good a passing one."""
    refusal = Refusal(40, at(0), 422, "Invalid", "spec.containers[0].name: Duplicate value")
    waited = job(status(attempt(40, AttemptState.ACQUIRING), ledger={"folded_through": 39}))
    assert settled(snapshot(waited, refusal=refusal)).status.phase is Phase.FAILED


@pytest.mark.parametrize(
    ("words", "ran", "failed"),
    [
        ("spec.containers[0].name: Duplicate value", False, True),
        ("spec.containers[0].name: Duplicate value", True, False),
        ("ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", False, False),
        ('admission webhook "x" denied the request: no', False, False),
    ],
)
def test_a_pod_is_invalid_for_good_only_if_none_of_the_job_ever_ran(words, ran, failed):
    refusal = Refusal(2, at(0), 422, "Invalid", words)
    found = after(history=RAN if ran else (), refusal=refusal, state=AttemptState.ACQUIRING)
    assert (found.phase is Phase.FAILED) is failed


def test_the_event_about_one_of_several_nodes_names_it_and_its_rank():
    world = running()
    node = world.node_of(2)
    world.fail(2)
    (event,) = [event for event in world.decide().events if event.reason == "AttemptFailure"]
    assert event.message.startswith(f"attempt 1 (spot on {node}, rank 2): UserException: RuntimeError: boom")
