"""What status says of slow ranks, and when it is written."""

from dataclasses import replace

from tests.support.decisions.snapshots import at, attempt, job, pod, settled, snapshot, status, stepped, stored

from holdfast.api.attempt import AttemptState, SlowRank
from holdfast.core.observe.report import SlowRank as Told

TRAINS = attempt(fenced=True, first_step=500)
SLOW = Told(rank=3, pod=0, own=0.9, others=0.5, step=1.0)


def given(*slow: Told, current=TRAINS, **changes):
    """A training whose rank 0 tells of these slow ranks."""
    return snapshot(job(status(current)), pod(), reports=[stepped(slow_ranks=slow)], **changes)


def condition(decision) -> tuple[str, str, str] | None:
    """Status, reason and message of the condition."""
    found = [one for one in decision.status.conditions if one.type == "SlowRank"]
    return (found[0].status, found[0].reason, found[0].message) if found else None


def test_a_slow_rank_is_said_with_its_node_and_what_follows():
    decision = settled(given(SLOW, replace(SLOW, rank=1, own=0.8)))
    assert decision.status.current.slow == (
        SlowRank(rank=3, pod=0, node="n1", times="1.80"),
        SlowRank(rank=1, pod=0, node="n1", times="1.60"),
    )
    assert condition(decision) == (
        "True", "OthersWait",
        "rank 3 on node n1 works 1.80 times as long in each step as the others, which wait for it for 40% of the time, "
        "and 1 more is slow; failure.slowRanks.action is Tell",
    )  # fmt: skip
    assert [event.reason for event in decision.events] == ["SlowRank"]


def test_a_training_whose_ranks_are_alike_has_no_condition():
    assert condition(settled(given())) is None


def test_other_figures_of_the_same_ranks_are_not_written():
    """Breaks if each report of a slow rank costs a write of the status."""
    first = given(SLOW)
    known = stored(first.job, settled(first).status)
    told = stepped(slow_ranks=(replace(SLOW, own=0.95),), received_at=first.job.status.progress.updated_at or at(-1))
    again = settled(replace(first, job=known, reports={told.pod_uid: told}))
    assert again.status == known.status
    assert again.events == ()


def test_the_condition_ends_when_no_rank_is_slow_and_stays_while_no_report_is_known():
    first = given(SLOW)
    known = replace(first, job=stored(first.job, settled(first).status))
    unheard = settled(replace(known, reports={}))
    assert condition(unheard)[0] == "True"
    over = settled(replace(known, reports={"u-1": stepped()}))
    assert condition(over)[:2] == ("False", "NotSlow")
    assert over.status.current.slow == ()


def test_the_condition_ends_with_the_attempt():
    first = given(SLOW)
    known = stored(first.job, settled(first).status)
    waits = known.status.model_copy(update={"current": attempt(2, AttemptState.ACQUIRING), "attempt": 2})
    after = settled(snapshot(known.model_copy(update={"status": waits})))
    assert condition(after)[0] == "False"


def test_a_rank_that_is_told_twice_is_written_once():
    """Breaks if a report can make a status that the API server refuses, so that the job stands still."""
    decision = settled(given(SLOW, replace(SLOW, own=0.8), replace(SLOW, rank=1)))
    assert [(one.rank, one.times) for one in decision.status.current.slow] == [(3, "1.80"), (1, "1.80")]
