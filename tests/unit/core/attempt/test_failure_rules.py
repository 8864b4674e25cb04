"""What a user has decided about failures: which rule fits, and what becomes of the job."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.histories import record
from tests.support.decisions.snapshots import (
    at,
    attempt,
    ended,
    job,
    settled,
    snapshot,
    status,
    verdict,
)

from holdfast.api.attempt import EndKind, EndReason
from holdfast.api.failure import FailureRule
from holdfast.api.status import Phase
from holdfast.core.attempt.failure_rules import contains, give_up, judge
from holdfast.core.attempt.why_ended import End
from holdfast.core.draft import Draft

FAILED = End(EndKind.FAILURE, "UserException", "RuntimeError: CUDA error\nat step 7", exit_code=42)


def rules(*given):
    return [FailureRule.model_validate(one) for one in given]


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ({"exitCodes": [41, 42]}, True),
        ({"exitCodes": [41]}, False),
        ({"reasons": ["OutOfMemory", "UserException"]}, True),
        ({"reasons": ["OutOfMemory"]}, False),
        ({"message": "CUDA error"}, True),
        ({"message": "cuda error"}, False),
        ({"message": "RuntimeError*step 7"}, True),
        ({"exitCodes": [42], "message": "CUDA"}, True),
        ({"exitCodes": [42], "message": "NCCL"}, False),
        ({"exitCodes": [1], "reasons": ["UserException"]}, False),
    ],
)
def test_a_rule_fits_if_all_its_conditions_are_met(rule, fits):
    judged = judge(rules({**rule, "action": "Fail"}), FAILED)
    assert judged.action == ("Fail" if fits else None)
    assert (judged == FAILED) is not fits


def test_the_first_rule_that_fits_decides_and_is_named():
    decided = judge(
        rules(
            {"exitCodes": [3], "action": "Fail"},
            {"exitCodes": [42], "action": "Retry"},
            {"message": "*", "action": "Fail"},
        ),
        FAILED,
    )
    assert decided.action == "Retry"
    assert decided.message == "failure.rules[1]: RuntimeError: CUDA error\nat step 7"


@pytest.mark.parametrize("kind", [kind for kind in EndKind if kind is not EndKind.FAILURE])
def test_only_failures_of_the_program_are_judged(kind):
    """Breaks if a program whose node is taken ends the job by a word in its last lines."""
    end = End(kind, "Any", "CUDA error", exit_code=42)
    assert judge(rules({"message": "*", "action": "Fail"}), end) is end


def test_an_exit_code_that_is_not_known_fits_no_list():
    assert judge(rules({"exitCodes": [1], "action": "Fail"}), End(EndKind.FAILURE, EndReason.EVICTED)).action is None


@given(st.text("ab*\n", max_size=20), st.text("ab*", min_size=1, max_size=8))
def test_contains_is_a_search_in_which_a_star_is_any_text(text, wanted):
    pattern = ".*".join(map(re.escape, wanted.split("*")))
    assert contains(text, wanted) == bool(re.search(pattern, text, re.DOTALL))


# What becomes of the job.


def after(action, *, failed_at=(), exit_code=42, **changes):
    """The status after a failure with the exit code 42 before the first step, under one rule."""
    rule = {"exitCodes": [42], "action": action}
    given = job(
        status(
            attempt(2, fenced=True),
            history=(record(number=1, started_at=at(-9000), kind=EndKind.INTERRUPTION),),
            failed_at=failed_at,
        ),
        failure={"rules": [rule], "maxFailures": 2, **changes},
    )
    words = verdict("failed", "UserException", exitCode=exit_code, message="ValueError: no")
    return settled(snapshot(given, ended(2, exit_code, words))).status


def test_fail_ends_the_job_at_once():
    done = after("Fail")
    assert (done.phase, done.reason) == (Phase.FAILED, "UserException")
    assert done.decision.message == "UserException: failure.rules[0]: ValueError: no"
    assert done.restarts.failures == 1
    assert not after("Fail", exit_code=43).phase.final


def test_retry_counts_as_without_a_rule():
    first = after("Retry")
    assert (first.restarts.failures, first.current.avoid_nodes) == (1, ())
    assert after("Retry", failed_at=(at(-60), at(-30))).reason == "TooManyFailures"


def test_elsewhere_counts_and_leaves_the_node():
    first = after("Elsewhere")
    assert (first.restarts.failures, first.current.avoid_nodes) == (1, ("n1",))
    assert after("Elsewhere", failed_at=(at(-60), at(-30))).reason == "TooManyFailures"


def test_ignore_counts_as_an_interruption_in_which_the_node_has_no_part():
    many = after("Ignore", failed_at=(at(-60), at(-30)))
    assert not many.phase.final
    assert (many.restarts.failures, many.restarts.interruptions, many.restarts.infrastructure) == (0, 1, 0)
    assert (many.history[-1].kind, many.current.avoid_nodes) == (EndKind.INTERRUPTION, ())
    assert many.current.retry_at > at(0), "a program that fails at its start is not started again at once"


def test_what_is_ignored_still_ends_a_job_that_never_progresses():
    assert after("Ignore", maxFruitless=1).reason == EndReason.TOO_MANY_FRUITLESS


# Breaks if a training that hangs goes on for ever because its attempts have to wait for a node, or if one ends that has
# made progress in between.
@pytest.mark.parametrize(
    ("between", "fruitless", "action"),
    [
        ({"kind": EndKind.STOPPED, "reason": "AcquireTimeout"}, 3, "Fail"),
        ({"kind": EndKind.STOPPED, "reason": "MoveRequested"}, 3, "Fail"),
        ({"kind": EndKind.STOPPED, "reason": "MoveRequested"}, 2, None),
        ({"kind": EndKind.INTERRUPTION, "reason": "NodeGone", "fruitless": True}, 4, None),
    ],
    ids=["waited for a node", "was moved", "was moved after progress", "was lost"],
)
def test_three_hangs_in_a_row(between, fruitless, action):
    hang = {"kind": EndKind.FAILURE, "reason": "Stalled", "fruitless": True}
    history = (record(number=1, **hang), record(number=2, **between), record(number=3, **hang))
    draft = Draft(snapshot(job(status(history=history, fruitless_attempts=fruitless))))
    end = give_up(draft, End(EndKind.FAILURE, EndReason.STALLED, "no step for 300 s"), fruitless=True)
    assert end.action == action
    assert ("holdfast evidence vit" in end.message) is (action == "Fail")
