"""Conditions in every phase, and when their transition time moves."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    drain,
    ended,
    job,
    pending,
    pod,
    report,
    settled,
    snapshot,
    status,
    stepped,
    stopped,
    stored,
    verdict,
)

from holdfast.api.attempt import AttemptState
from holdfast.core.decide import decide
from holdfast.core.decision import InspectPod
from holdfast.core.observe.report import SavedCheckpoint, Silence
from holdfast.core.observe.start_trouble import Inspection

RUNNING = attempt(fenced=True, first_step=500)
FIRST_FAILURE_ENDS = {"maxFailures": 0}


def told(decision):
    return {c.type: (c.status, c.reason) for c in decision.status.conditions}


CASES = {
    "acquiring": (
        snapshot(job(status(attempt(state=AttemptState.ACQUIRING))), pending()),
        {"CapacityAcquired": ("False", "Acquiring"), "Progressing": ("False", "Acquiring"),
         "Complete": ("False", "NotFinished"), "Failed": ("False", "NotFailed"),
         "Suspended": ("False", "NotSuspended")},
    ),
    "running": (
        snapshot(job(status(RUNNING)), pod()),
        {"CapacityAcquired": ("True", "NodeFound"), "Progressing": ("True", "Running"),
         "Suspended": ("False", "NotSuspended")},
    ),
    "leaving": (
        snapshot(job(status(attempt(state=AttemptState.DRAINING, drain=drain()))), pod()),
        {"Progressing": ("True", "SpotInterruption"), "Suspended": ("False", "NotSuspended")},
    ),
    "suspending": (
        snapshot(job(status(attempt(state=AttemptState.DRAINING, drain=stopped())), suspend=True), pod()),
        {"Suspended": ("False", "Suspending")},
    ),
    "suspended": (
        snapshot(job(suspend=True)), {"Suspended": ("True", "Suspended"), "Progressing": ("False", "Suspended")},
    ),
    "completed": (
        snapshot(job(status(RUNNING)), ended(1, 0, verdict("completed", "Exited"))),
        {"Complete": ("True", "Exited"), "Failed": ("False", "NotFailed"), "Progressing": ("False", "Exited"),
         "CapacityAcquired": ("False", "Exited")},
    ),
    "completed, and nothing was saved": (
        snapshot(job(status(RUNNING)), ended(1, 0, verdict("completed", "NothingSaved", message="no save of it"))),
        {"Complete": ("True", "NothingSaved"), "Failed": ("False", "NotFailed")},
    ),
    "failed": (
        snapshot(job(status(RUNNING), failure=FIRST_FAILURE_ENDS), ended(1, 1)),
        {"Failed": ("True", "TooManyFailures"), "Complete": ("False", "TooManyFailures")},
    ),
    "no profile": (
        snapshot(job(capacity={"profile": "grid"})), {"CapacityAcquired": ("False", "ProfileNotFound")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_phase(name):
    given, expected = CASES[name]
    found = told(settled(given))
    assert {kind: found[kind] for kind in expected} == expected


# Breaks if a program that was lost without a trace looks like one that is complete.
@pytest.mark.parametrize(
    ("reason", "kind", "next_"),
    [
        ("NothingSaved", "Warning", "The job is over, and nothing was saved. NothingSaved: no save of it."),
        ("Completed", "Normal", "Nothing: training is complete."),
        ("AlreadyComplete", "Normal", "Nothing: training is complete."),
    ],
)
def test_a_completed_job_says_whether_anything_was_saved(reason, kind, next_):
    decision = settled(
        snapshot(job(status(RUNNING)), ended(1, 0, verdict("completed", reason, message="no save of it")))
    )
    found = decision.status
    assert (found.phase, found.reason, found.next) == ("Completed", reason, next_)
    (said,) = [one.message for one in found.conditions if one.type == "Complete"]
    assert said == f"{reason}: no save of it"
    assert [(one.type, one.message) for one in decision.events if one.reason == "JobCompleted"] == [(kind, said)]


def test_a_time_moves_only_with_the_status():
    given = snapshot(job(status(RUNNING)), pod())
    first = settled(given)
    later = replace(given, now=at(60), job=stored(given.job, first.status), pods=(pod(deleted_at=at(90)),))
    times = {c.type: c.last_transition_time for c in settled(later).status.conditions}
    reasons = told(settled(later))
    assert reasons["Progressing"] == ("True", "PodDeleted")
    assert times["Progressing"] == at(0)


def test_each_carries_the_generation():
    given = snapshot(job(status(RUNNING), meta={"generation": 9}), pod())
    decision = settled(given)
    assert {c.observed_generation for c in decision.status.conditions} == {9}
    assert decision.status.observed_generation == 9


def unreachable(decision):
    return told(decision).get("ProgressUnreachable")


def test_silence_is_reported_and_withdrawn():
    """Training goes on: nothing but the condition changes."""
    given = snapshot(job(status(RUNNING)), pod(), reports=[stepped(received_at=at(-119))])
    first = settled(given)
    assert unreachable(first) is None
    assert first.requeue_at == at(1)
    silent = replace(given, now=at(1), job=stored(given.job, first.status))
    second = settled(silent)
    assert unreachable(second) == ("True", "Silent")
    assert (second.trace, second.orders) == ((), ())
    heard = replace(silent, job=stored(silent.job, second.status), reports={"u-1": report()})
    assert unreachable(settled(heard)) == ("False", "Reporting")


def test_a_trainer_that_fell_silent_is_inspected_once():
    """A user may have replaced the certificate by which it trusts the endpoint."""
    given = snapshot(job(status(RUNNING)), pod(), reports=[stepped(received_at=at(-120))])
    assert decide(given).actions == (InspectPod("vit-1-0", "u-1"),)
    before = replace(given, inspections={"u-1": Inspection(at(-300))})
    assert decide(before).actions == (InspectPod("vit-1-0", "u-1"),)
    assert decide(replace(given, inspections={"u-1": Inspection(at(0))})).actions == ()


def test_a_new_operator_first_waits_for_reports():
    given = snapshot(job(status(RUNNING)), pod(), listening_since=at(-10))
    assert unreachable(settled(given)) is None
    assert unreachable(settled(replace(given, listening_since=at(0) - timedelta(minutes=2)))) == ("True", "Silent")


def test_a_program_without_the_library_is_not_called_silent():
    assert unreachable(settled(snapshot(job(status(attempt())), pod(), listening_since=at(-9000)))) is None


def test_the_next_attempt_is_not_blamed_for_the_silence_of_the_last():
    given = snapshot(job(status(RUNNING)), pod(), listening_since=at(-9000))
    first = settled(given)
    lost = replace(given, job=stored(given.job, first.status), pods=(ended(1, 137),))
    assert unreachable(settled(lost)) == ("False", "Reporting")


def failing(decision):
    return told(decision).get("CheckpointFailing")


def saves_fail(error="StorageDenied: no", **changes):
    return snapshot(job(status(RUNNING)), pod(), reports=[stepped(save_error=error)], **changes)


def test_failing_saves_are_reported_once_and_withdrawn():
    assert failing(settled(saves_fail(None))) is None
    given = saves_fail()
    first = decide(given)
    assert failing(first) == ("True", "SaveFailed")
    assert [(e.type, e.reason, e.message) for e in first.events] == [
        ("Warning", "CheckpointFailing", "StorageDenied: no")
    ]
    again = replace(given, now=at(60), job=stored(given.job, first.status), reports=reports("StorageDenied: other"))
    assert (failing(decide(again)), decide(again).events) == (("True", "SaveFailed"), ())
    well = replace(again, job=stored(given.job, decide(again).status), reports=reports(None))
    assert (failing(settled(well)), decide(well).events) == (("False", "NotFailing"), ())


def reports(error):
    return {"u-1": stepped(received_at=at(59), save_error=error)}


def test_a_feature_whose_gate_is_off_is_said_once():
    """Breaks if a training runs without the copies that it asks for, and nothing says so."""
    spec = {"checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "peers": True}}
    given = snapshot(job(trainer={"image": "i", "command": ["x"], "nodes": 2}, **spec))
    first = settled(given)
    assert told(first)["FeatureOff"] == ("True", "PeerCopies")
    (event,) = [one for one in first.events if one.reason == "FeatureOff"]
    assert "an administrator sets featureGates.PeerCopies" in event.message
    kept = replace(given, job=stored(given.job, first.status))
    assert [one for one in settled(kept).events if one.reason == "FeatureOff"] == []
    turned_on = replace(kept, config=replace(kept.config, gates=frozenset({"PeerCopies"})))
    assert told(settled(turned_on))["FeatureOff"] == ("False", "PeerCopies")
    assert "FeatureOff" not in told(settled(replace(turned_on, job=given.job)))


def test_a_save_that_does_not_fit_into_the_memory_is_reported_before_it_begins():
    """Breaks if no condition shows that a save may not fit into the trainer's memory."""
    words = "a save copies the state: 9.0Gi of memory, of which 4.0Gi are left"
    given = snapshot(job(status(RUNNING)), pod(), reports=[stepped(memory_warning=words)])
    first = decide(given)
    assert told(first)["MemoryShort"] == ("True", "NoRoomForSave")
    assert [(e.type, e.reason, e.message) for e in first.events] == [("Warning", "MemoryShort", words)]
    kept = stored(given.job, first.status)
    assert decide(replace(given, job=kept)).events == ()
    well = replace(given, now=at(60), job=kept, reports={"u-1": stepped(received_at=at(59))})
    assert told(settled(well))["MemoryShort"] == ("False", "Enough")


SAVED = SavedCheckpoint(600, "s3://runs/vision/vit/manifests/600", 4096, at(-300))


# Breaks if people learn of a storage that is away only when an attempt has ended, or not what a loss would cost now.
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"checkpoint": SAVED}, "saves wait, and the last commit is of step 600, 2026-11-21T08:55:00Z: if the node"),
        ({"checkpoint": SAVED, "state": "saving"}, "saves wait, and the last commit is of step 600"),
        ({}, "saves wait, and there is no commit yet: if the node is lost now, all is lost"),
        ({"state": "starting", "first_step": None}, "the program waits for it, and has trained no step yet"),
        ({"state": "waiting", "first_step": None}, "the program waits for it, and has trained no step yet"),
    ],
)
def test_a_storage_that_does_not_answer(changes, wanted):
    silence = Silence(at(-4), "s3://runs cannot be reached: refused")
    given = snapshot(job(status(RUNNING)), pod(), reports=[stepped(storage_silence=silence, **changes)])
    first = settled(given)
    assert (told(first)["StorageUnreachable"], first.status.reason) == (("True", "NotServing"), "StorageUnreachable")
    (event,) = [one for one in first.events if one.reason == "StorageUnreachable"]
    since = "the storage of checkpoints has served no call since 2026-11-21T08:59:56Z; "
    assert event.message.startswith(since + wanted)
    assert event.message.endswith("(s3://runs cannot be reached: refused)")
    assert first.status.next.startswith(f"T{event.message[1:]}. ")
    well = replace(given, now=at(60), job=stored(given.job, first.status), reports={"u-1": stepped(received_at=at(59))})
    assert (told(settled(well))["StorageUnreachable"], settled(well).status.reason) == (("False", "Serving"), None)
    assert "served" not in settled(well).status.next


def test_another_error_text_alone_is_not_written():
    given = saves_fail()
    told_first = stored(given.job, settled(given).status)
    other = replace(given, job=told_first, reports={"u-1": stepped(save_error="other words")})
    assert decide(other).status == told_first.status


def test_a_new_operator_does_not_withdraw_it():
    given = saves_fail()
    fresh = replace(given, job=stored(given.job, settled(given).status), reports={})
    assert failing(settled(fresh)) == ("True", "SaveFailed")


def test_the_next_attempt_is_not_blamed_for_the_saves_of_the_last():
    given = saves_fail()
    lost = replace(given, job=stored(given.job, settled(given).status), pods=(ended(1, 137),))
    assert failing(settled(lost)) == ("False", "NotFailing")
