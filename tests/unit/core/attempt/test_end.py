"""How long a job waits after an attempt that gained nothing."""

from dataclasses import replace
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
from tests.support.decisions.snapshots import spec as job_spec

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.api.status import Ledger, Phase
from holdfast.core.observe.snapshot import Refusal


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
    ran = Ledger(ran_at=history[0].started_at if history else None)
    return settled(snapshot(job(status(attempt(2, state), history=history, ledger=ran)), *seen, refusal=refusal)).status


RAN = (record(number=1, started_at=at(-9000), kind=EndKind.INTERRUPTION),)


def at_once(exit_code, message, reason="Error"):
    """An attempt whose trainer ended two seconds after its start."""
    trainer = container(ended=True, started_at=at(-2), exit_code=exit_code, message=message, reason=reason)
    return ended(2, exit_code, trainer=trainer)


@pytest.mark.parametrize("reason", ["StorageDenied", "StorageNotFound", "StorageUntrusted", "StorageProxyFailed"])
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


@pytest.mark.parametrize(("times", "limit", "paused"), [(3, 20, False), (4, 20, True), (1, 2, True)])
def test_what_may_pass_by_itself_is_tried_a_few_times_and_then_pauses_the_job(times, limit, paused):
    """Breaks if a key that nobody corrects costs a node again and again, or ends a training of months."""
    before = tuple(record(number=n, reason="StorageDenied", first_step=None) for n in range(2, 2 + times))
    given = status(
        attempt(9, AttemptState.STARTING, raised_at=at(-100)),
        history=(*RAN, *before),
        ledger=Ledger(ran_at=at(-9000)),
        fruitless_attempts=times,
    )
    refused = replace(at_once(78, verdict("misconfigured", "StorageDenied")), name="vit-9-0", uid="u-9", attempt=9)
    found = settled(snapshot(job(given, failure={"maxFruitless": limit}), refused)).status
    assert (found.phase is Phase.SUSPENDED) is paused
    assert (found.reason == "StorageDenied") is paused
    assert found.finished_at is None


def test_a_refusal_after_a_training_that_went_well_is_the_first_one_again():
    """Breaks if refusals of last year keep a key that is rotated today from being tried once more."""
    before = tuple(record(number=n, reason="StorageDenied", first_step=None) for n in range(2, 6))
    given = status(attempt(9, raised_at=at(-900), first_step=500), history=before, ledger=Ledger(ran_at=at(-9000)))
    refused = replace(at_once(78, verdict("misconfigured", "StorageDenied")), name="vit-9-0", uid="u-9", attempt=9)
    assert settled(snapshot(job(given), refused)).status.history[-1].kind is EndKind.INTERRUPTION


def test_a_paused_job_says_what_is_wrong_and_when_it_goes_on():
    found = after(at_once(1, verdict("misconfigured", "NoCheckpoint", message="no checkpoint there")), history=RAN)
    said = {one.type: (one.status, one.reason, one.message) for one in found.conditions}
    assert said["Misconfigured"] == ("True", "NoCheckpoint", "no checkpoint there")
    assert said["Suspended"][:2] == ("True", "NoCheckpoint")
    assert "waits for a correction (NoCheckpoint)" in found.next
    assert "no checkpoint there" in found.decision.message
    goes_on = settled(snapshot(job(found, checkpoint={**job_spec()["checkpoint"], "resume": "Never"}))).status
    said = {one.type: (one.status, one.reason) for one in goes_on.conditions}
    assert said["Misconfigured"] == ("False", "Corrected")
    assert goes_on.current.number == 3


def test_the_pause_until_a_correction_is_no_time_without_training():
    """Breaks if the weekend until somebody corrects a job counts as its loss, or against its activeDeadline."""
    found = after(at_once(1, verdict("misconfigured", "NoCheckpoint")), history=RAN)
    later = replace(snapshot(job(found, suspend=True)), now=at(7200))
    resumed = replace(snapshot(job(settled(later).status)), now=at(7200))
    assert settled(resumed).status.suspended_for == timedelta(seconds=7200)


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
