"""Every row of the transition table: given a status and a view, the rows that fire and the outcome."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import (  # fmt: skip
    GRACE,
    OTHER,
    SAME,
    TIERS,
    at,
    attempt,
    container,
    created,
    ended,
    job,
    node,
    nodes,
    pending,
    pod,
    report,
    settled,
    snapshot,
    status,
    stepped,
)
from tests.unit.core.table import (
    edit_cases,
    gang_cases,
    gang_fault_cases,
    leave_and_start_cases,
    policy_cases,
    row_cases,
    slow_rank_cases,
    successor_cases,
    tier_cases,
)
from tests.unit.core.table.row_cases import FENCED, RUNNING, asked, outcome, told

from holdfast.api.attempt import AttemptState, Drain
from holdfast.api.names import ANNOTATION_MOVE
from holdfast.core.attempt.start import seen_pod
from holdfast.core.capacity.knowledge import find
from holdfast.core.made_from import fence_hash, made_from
from holdfast.core.observe.report import SavedCheckpoint
from holdfast.core.observe.snapshot import Refusal
from holdfast.core.table import SUCCESSOR_TABLE, TABLE, always

CASES = (
    *row_cases.CASES,
    *leave_and_start_cases.CASES,
    *successor_cases.CASES,
    *policy_cases.CASES,
    *gang_cases.CASES,
    *gang_fault_cases.CASES,
    *slow_rank_cases.CASES,
    *edit_cases.CASES,
    *tier_cases.CASES,
)
ROWS = (*TABLE, *SUCCESSOR_TABLE)


def program(given):
    """The digest of what takes the fence in a job."""
    return fence_hash(made_from(given.spec))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_table(case):
    """The rows that fire, the outcome, and that a second decision changes nothing."""
    decision = settled(case.given)
    assert decision.trace == case.trace
    found = outcome(decision)
    assert {key: found[key] for key in case.then} == case.then


def test_every_row_has_a_case():
    """A new row needs a case; a row that no case reaches has to go."""
    fired = {name for case in CASES for name in case.trace}
    assert fired == {row.name for row in ROWS}


# Breaks if the docstring of a guard has no words that docs/reference/decisions.md can show.
def test_every_guard_says_when_its_row_fits():
    silent = {row.when for row in ROWS if not row.guard}
    assert silent == {always, seen_pod}


def test_names_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_the_successor_goes_where_it_was_asked_to():
    decision = settled(snapshot(asked(ANNOTATION_MOVE, "r1 cpu", FENCED), pod()))
    assert decision.status.successor.tier.name == "cpu"
    assert decision.status.successor.avoid_nodes == ()
    decision = settled(snapshot(asked(ANNOTATION_MOVE, "r1", FENCED), pod()))
    assert decision.status.successor.avoid_nodes == ("n1",)


def test_a_move_while_it_leaves_changes_only_where_to():
    given = job(told(), meta={"annotations": {ANNOTATION_MOVE: "r1 cpu"}})
    decision = settled(snapshot(given, pod()))
    assert decision.status.successor.tier.name == "cpu"
    assert decision.status.attempt == 2


def test_a_node_that_a_user_did_nothing_to_is_not_avoided():
    """Deleting the pod on the only GPU node must not send its replacement away from there."""
    decision = settled(snapshot(job(status(FENCED)), pod(deleted_at=at(20))))
    assert decision.status.successor.avoid_nodes == ()


def test_the_deadline_of_a_job_is_said_as_it_is_written():
    decision = settled(snapshot(job(status(FENCED), activeDeadline="30m"), pod()))
    assert decision.status.decision.message.endswith("spec.activeDeadline (30m)")


def test_a_job_remembers_that_its_program_asks_for_the_fence():
    given = job(status(attempt()))
    assert settled(snapshot(given, pod(), reports=[report()])).status.fenced_program == program(given)
    assert settled(snapshot(given, pod(), reports=[report(fenced=False)])).status.fenced_program is None


def test_that_knowledge_belongs_to_the_program_that_held_the_fence():
    """Breaks if an edit speaks for the program before it: nothing shows that the new one takes the fence."""
    given = job(status(attempt(made_from=OTHER)))
    held = settled(snapshot(given, pod(), reports=[report()])).status
    assert held.fenced_program not in (None, program(given))


@pytest.mark.parametrize(("edit", "known"), [({"every": "1h"}, True), ({"folder": "/out"}, False)])
def test_only_an_edit_of_what_takes_the_fence_makes_it_doubtful(edit, known):
    """Breaks if an edit of checkpoint.every takes the successors of a job away, or one of its folder does not."""
    before = job(status(attempt(2, AttemptState.INTENDED), fenced_program=SAME))
    storage = {"s3": {"bucket": "runs", "prefix": "vision/vit"}}
    edited = job(before.status, checkpoint={"storage": storage, **edit})
    assert (settled(snapshot(edited)).status.fenced_program is not None) is known


def test_a_new_program_has_to_show_that_it_takes_the_fence():
    ran = status(attempt(2, AttemptState.INTENDED), fenced_program="other")
    assert settled(snapshot(job(ran))).status.fenced_program is None
    same = ran.model_copy(update={"fenced_program": SAME})
    assert settled(snapshot(job(same))).status.fenced_program == program(job())


# Breaks if what a tier shows an attempt is put down to another number of accelerators than its pods asked for.
def test_an_attempt_knows_how_many_accelerators_its_pods_ask_for():
    made = settled(snapshot(job(status(attempt(2, AttemptState.INTENDED))))).status
    assert made.current.accelerators == job().spec.trainer.accelerators_per_node
    ran = job(status(attempt(accelerators=7)))
    assert find(settled(snapshot(ran, ended(1, 1))).status.tiers, "spot").accelerators == 7


def test_a_pod_of_another_program_is_not_taken_over_as_promised():
    given = job(status(FENCED, fenced_program="other"))
    assert "taken over" not in settled(snapshot(given, pod(), pending(2), reports=[stepped()])).trace


def test_no_successor_comes_up_beside_a_program_that_the_job_runs_no_longer():
    going = nodes(node(taints=("aws-node-termination-handler/spot-itn",)))
    given = job(status(FENCED.model_copy(update={"made_from": OTHER}), fenced_program="other"))
    assert created(settled(snapshot(given, pod(), cluster=going, reports=[stepped()]))) == []


def test_memory_that_ran_out_at_a_save_says_what_the_save_took():
    killed = ended(1, 137, trainer=replace(container(ended=True, exit_code=137), reason="OOMKilled"))
    saved = SavedCheckpoint(900, "s3://b/p", 3 * 2**30, at(-60))

    def said(**changes):
        given = snapshot(job(status(FENCED)), killed, reports=[stepped(checkpoint=saved, **changes)])
        return settled(given).status.history[-1].message

    assert said(state="saving").endswith(
        ", while it saved: a save copies the state, which takes 3.0Gi of memory; raise trainer.resources.memory by that"
    )
    assert "save" not in said(state="training")
    assert said(state="training", memory_warning="a save does not fit").endswith(
        "; before that it reported: a save does not fit"
    )


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("must specify limits.ephemeral-storage for: trainer", "trainer.resources.ephemeralStorage"),
        ('violates PodSecurity "restricted:latest": runAsNonRoot != true', "trainer.securityContext.runAsUser"),
    ],
)
def test_a_refusal_names_the_field_that_helps(message, field):
    refused = Refusal(1, at(-1), 403, "Forbidden", message)
    said = settled(
        snapshot(job(status(attempt(state=AttemptState.ACQUIRING))), refusal=refused)
    ).status.decision.message
    assert message in said
    assert field in said


def test_a_deadline_is_never_before_the_order():
    drained = settled(snapshot(job(status(FENCED)), pod(deleted_at=at(-20))))
    assert isinstance(drained.status.current.drain, Drain)
    assert drained.status.current.drain.deadline == at(0)


def test_the_grace_bounds_a_long_notice():
    long = nodes(node(taints=("karpenter.sh/disrupted",), termination_at=at(9000)))
    assert settled(snapshot(job(status(FENCED)), pod(), cluster=long)).status.current.drain.deadline == at(0) + GRACE


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_case_comes_to_rest_after_a_change_of_the_spec(case):
    """The profile is gone, no two nodes are allowed, the job is suspended: no rows fire without end."""
    for capacity in ({"profile": "gone"}, {"tiers": list(TIERS), "maxOverlap": "0s"}):
        for suspend in (False, True):
            changed = job(case.given.job.status, capacity=capacity, suspend=suspend)
            given = changed.model_copy(update={"metadata": case.given.job.metadata})
            settled(replace(case.given, job=given, profile=None))


def test_the_report_of_a_successor_that_was_given_up_does_not_count():
    """Its pod is kept for its logs, and its last report with it."""
    ended_one = ended(2, 1, node="n2")
    reports = [stepped(step=900), report(2, state="waiting", fenced=False, step=600)]
    decision = settled(snapshot(job(status(FENCED, attempt=2)), pod(), ended_one, reports=reports))
    assert decision.status.progress.step == 900


def test_a_successor_is_paid_for_until_it_ended_and_not_until_the_next_decision():
    follower = successor_cases.follower(RUNNING, scheduled_at=at(-7200), started_at=at(-7190))
    given = successor_cases.given(successor_cases.ON_DEDICATED, follower)
    over = container(ended=True, exit_code=1)
    gone = ended(2, 1, node="n2", trainer=replace(over, ended_at=at(-6800)))
    decision = settled(snapshot(given, pod(), gone, reports=[stepped()]))
    assert decision.status.history[-1].ended_at == at(-6800)
