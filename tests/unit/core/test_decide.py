"""The decision as a whole: it comes to rest, reads nothing but its argument, and orders survive a restart."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.decisions.snapshots import (  # fmt: skip
    NOW,
    SAME,
    TIERS,
    at,
    attempt,
    created,
    drain,
    ended,
    job,
    node,
    nodes,
    pod,
    released,
    settled,
    silent,
    snapshot,
    status,
    stepped,
    stored,
)
from tests.unit.core.table.policy_cases import SAYS, training, under

from holdfast.api.attempt import AttemptState
from holdfast.core import decide as module
from holdfast.core.attempt import placement
from holdfast.core.capacity.choose import choose
from holdfast.core.decision import CreatePod
from holdfast.core.errors import UndecidedError
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.snapshot import Refusal
from holdfast.core.row import job_row


def test_rows_that_fire_without_end_are_an_error_that_names_them(monkeypatch):
    def nothing(draft):
        """Changes nothing, so the row fits again."""

    circle = job_row("circle", (), lambda draft: True, nothing, then="")
    monkeypatch.setattr(module, "candidates", lambda state, sight, *, successor: (circle,))
    with pytest.raises(UndecidedError, match="circle -> circle"):
        module.decide(snapshot(job()))


def test_the_snapshot_is_not_touched():
    given = snapshot(job(status(attempt())), pod(), reports=[stepped()])
    before = given.job.model_dump_json()
    settled(given)
    assert given.job.model_dump_json() == before


def quiet(given):
    """The same moment after its decision is stored."""
    return replace(given, job=stored(given.job, settled(given).status))


def test_a_quiet_decision_keeps_the_status_itself():
    given = quiet(snapshot(job(status(attempt(fenced=True))), pod()))
    assert module.decide(given).status is given.job.status


def test_a_policy_is_asked_once_while_its_input_does_not_change(monkeypatch):
    given = quiet(snapshot(under("Deadline", status(training())), pod(), reports=[SAYS]))
    asked = []
    monkeypatch.setattr(placement, "choose", lambda *about: asked.append(1) or choose(*about))
    module.decide(given)
    assert asked == [1]


def test_every_operator_gives_open_orders_again():
    leaving = attempt(state=AttemptState.DRAINING, drain=drain(order=4, at=at(-1)), fenced=True)
    given = snapshot(job(status(leaving, requests={"orders": 4, "checkpoint_order": 3})), pod())
    orders = settled(given).orders
    assert [(o.id, o.type, o.pod_uid, o.deadline) for o in orders] == [
        (3, "checkpoint", "u-1", None), (4, "drain", "u-1", at(98)),
    ]  # fmt: skip
    assert settled(replace(given, now=at(1))).orders == orders


def test_order_numbers_only_grow():
    given = job(status(attempt(fenced=True, first_step=1), requests={"orders": 7}), suspend=True)
    assert [order.id for order in settled(snapshot(given, pod())).orders] == [8]


def test_words_keep_their_time():
    first = settled(snapshot(job(status(attempt(state=AttemptState.STARTING))), pod())).status
    assert (first.decision.action, first.decision.at) == ("Run", NOW)
    again = settled(snapshot(job(first), pod(), now=at(60))).status
    assert again.decision.at == NOW


def test_more_than_one_number_is_never_raised_for_one_interruption():
    leaving = attempt(state=AttemptState.DRAINING, drain=drain(), fenced=True, first_step=1)
    given = job(status(leaving, successor=attempt(2, AttemptState.INTENDED)))
    assert settled(snapshot(given)).status.attempt == 2


def promised(*pods: PodView, **successor: Any) -> list[bool]:
    gone = attempt(state=AttemptState.DRAINING, drain=drain(), fenced=True, first_step=1)
    given = snapshot(job(status(gone, attempt=1 + len(successor), **successor)), *pods, cluster=nodes(silent()))
    return [action.promised for action in settled(given).actions if isinstance(action, CreatePod)]


def test_a_pod_is_promised_if_its_number_was_in_status_and_the_old_one_was_seen_to_end():
    successor = {"successor": attempt(2, AttemptState.INTENDED)}
    assert promised(ended(), **successor) == [True]
    assert promised(ended()) == [False]
    assert promised(**successor) == [False]  # its end was not seen
    assert promised(pod(), **successor) == [False]  # lost touch with: only status can say that it is over


def test_an_attempt_with_a_fence_gets_the_next_number_before_its_pod():
    training = attempt(state=AttemptState.RUNNING, fenced=True, first_step=1)
    going = nodes(node(taints=("aws-node-termination-handler/spot-itn",)))

    def followers(*others: PodView, **changes: Any) -> list[bool]:
        given = snapshot(job(status(training, **changes)), pod(), *others, cluster=going, reports=[stepped()])
        return [action.promised for action in settled(given).actions if isinstance(action, CreatePod)]

    assert followers(fenced_program=SAME) == [True]
    assert followers(fenced_program=None) == [False]
    assert followers(pod(0, deleted_at=at(9)), fenced_program=SAME) == [False]  # a third pod lives


# A namespace that is being deleted

CLOSED = {"namespace_closed": True}


@pytest.mark.parametrize(
    "given_status",
    [
        None,
        status(attempt(1, AttemptState.ACQUIRING, created_at=at(-600))),
        status(attempt(2, AttemptState.INTENDED)),
        status(attempt(2, AttemptState.INTENDED, tier=TIERS[1], acquire_deadline=at(-9))),
    ],
)
def test_a_job_whose_namespace_is_being_deleted_is_left_alone(given_status):
    given = job(given_status)
    decision = settled(snapshot(given, **CLOSED))
    assert (decision.trace, decision.actions) == ((), ())
    assert decision.status is given.status


def test_the_end_of_a_pod_is_recorded_in_a_namespace_that_is_being_deleted_and_the_pod_is_released():
    decision = settled(snapshot(job(status(attempt(fenced=True))), ended(1, 0, deleted_at=at(20)), **CLOSED))
    assert decision.trace == ("ended",)
    assert (created(decision), released(decision)) == ([], ["u-1"])


def test_a_pod_name_that_is_taken_again_and_again_is_tried_later_each_time():
    """Another client may hold many names: that must not become a loop without a pause."""
    refused = Refusal(3, at(0), 409, "NameTaken", "pod exists")
    once = settled(snapshot(job(status(attempt(3, AttemptState.ACQUIRING))), refusal=refused))
    assert (created(once), once.status.current.refusals) == ([4], 1)
    more = attempt(3, AttemptState.ACQUIRING, refusals=4)
    again = settled(snapshot(job(status(more)), refusal=refused))
    assert (created(again), again.status.current.retry_at) == ([], at(16))
