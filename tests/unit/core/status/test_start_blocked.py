"""The condition StartBlocked: what people read while a pod has its node and does not start."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    container,
    job,
    placed,
    pod,
    settled,
    snapshot,
    status,
    stored,
)

from holdfast.api.attempt import AttemptState
from holdfast.core.decide import decide
from holdfast.core.decision import InspectPod
from holdfast.core.observe.start_trouble import Inspection, StartTrouble

STARTING = AttemptState.STARTING
INJECTED = "container istio-proxy, which Holdfast did not add, cannot start: Back-off: 503"


def sidecar(message="Back-off: 503", reason="ImagePullBackOff"):
    return container(name="istio-proxy", waiting=reason, message=message)


def starting(*init, ago=-601.0, **changes):
    """A job whose first pod has had its node for ten minutes."""
    return snapshot(job(status(attempt(state=STARTING, scheduled_at=at(ago)))), placed(init=init), **changes)


def blocked(decision):
    return next(((one.status, one.reason) for one in decision.status.conditions if one.type == "StartBlocked"), None)


def next_of(given, decision, *pods, **changes):
    return replace(given, job=stored(given.job, decision.status), pods=pods or given.pods, **changes)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"])
def test_an_injected_container_that_cannot_start_is_waited_for_with_words(reason):
    found = settled(starting(sidecar(reason=reason)))
    assert (found.trace, found.status.phase, found.status.reason) == ((), "Starting", reason)
    assert (found.status.decision.action, found.status.decision.message) == ("Wait", INJECTED)
    assert blocked(found) == ("True", reason)
    assert [(one.type, one.reason, one.message) for one in found.events] == [("Warning", "StartBlocked", INJECTED)]


def test_a_start_that_takes_too_long_says_what_it_waited_for():
    found = settled(starting(sidecar(), ago=-1800.0))
    assert found.trace == ("start too slow",)
    assert found.status.history[-1].message == f"the trainer did not start within 30m: {INJECTED}"
    assert blocked(found) is None


def test_other_words_of_the_same_trouble_are_not_written():
    given = starting(sidecar())
    again = next_of(given, decide(given), placed(init=(sidecar("Back-off: 504"),)))
    found = decide(again)
    assert (found.status, found.events) == (again.job.status, ())


def test_the_condition_is_withdrawn_when_the_trainer_runs():
    given = starting(sidecar())
    found = settled(next_of(given, decide(given), pod()))
    assert blocked(found) == ("False", "Started")
    assert found.status.decision.action == "Run"


def test_a_pod_that_starts_as_pods_do_has_no_such_condition():
    assert blocked(settled(starting())) is None


def test_the_condition_stays_through_the_delay_although_the_trouble_was_seen_only_at_the_end():
    no_secret = container(waiting="CreateContainerConfigError", message='secret "s3" not found')
    given = starting()
    found = settled(replace(given, pods=(placed(trainer=no_secret),)))
    assert found.trace == ("bad container",)
    assert blocked(found) == ("True", "CreateContainerConfigError")
    assert found.status.decision.message.endswith("the next starts in 10s")


NO_VOLUME = StartTrouble("FailedMount", "pod vit-1-0 cannot start: no volume")


def unprepared(ago=-15.0, *seen, **changes):
    """A pod that has a node, and whose volumes are not there."""
    given = starting(ago=ago, inspections={"u-1": Inspection(*seen)} if seen else {})
    return replace(given, pods=(placed(prepared=False, **changes),))


def inspected(decision):
    return [one for one in decision.actions if isinstance(one, InspectPod)]


def test_a_pod_whose_volumes_are_not_there_in_time_is_inspected():
    early = settled(unprepared(-14.0))
    assert (inspected(early), early.requeue_at) == ([], at(1))
    assert inspected(settled(unprepared())) == [InspectPod("vit-1-0", "u-1")]


def test_what_the_warnings_say_is_shown():
    found = settled(unprepared(-60.0, at(-1), NO_VOLUME))
    assert (found.status.reason, found.status.decision.message) == ("FailedMount", NO_VOLUME.message)
    assert blocked(found) == ("True", "FailedMount")
    assert (inspected(found), found.requeue_at) == ([], at(59))


def test_a_pod_in_trouble_is_inspected_again():
    assert inspected(settled(unprepared(-90.0, at(-60), NO_VOLUME))) == [InspectPod("vit-1-0", "u-1")]


def test_a_pod_whose_volumes_are_there_is_past_that_trouble():
    given = unprepared(-90.0, at(-60), NO_VOLUME)
    past = settled(replace(given, pods=(placed(prepared=True),)))
    assert (blocked(past), inspected(past)) == (None, [])
    pulls = placed(prepared=False, init=(container(name="holdfast-init"),))  # an old kubelet does not say so
    assert inspected(settled(replace(given, pods=(pulls,)))) == []


def test_a_start_that_takes_too_long_says_which_volume_it_waited_for():
    found = settled(unprepared(-1800.0, at(-1), NO_VOLUME))
    assert found.status.history[-1].message.endswith("cannot start: no volume")
