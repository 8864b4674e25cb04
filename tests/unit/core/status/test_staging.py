"""What status says while data is copied into the pods, and when it is written."""

from dataclasses import replace

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import CONFIG, at, attempt, job, pod, report, settled, snapshot, status, stored

from holdfast.api.attempt import AttemptState
from holdfast.core.observe.report import Report, Staging
from holdfast.core.observe.snapshot import Snapshot

GIB = 1 << 30
STARTED = attempt()


def told(bytes_=12 * GIB, *, over=False, number=1, **changes) -> Report:
    """A pod has this many of 40 GiB."""
    staging = Staging(bytes_, 40 * GIB, over)
    return report(number, **{"state": "starting", "fenced": False, "staging": staging, **changes})


def given(*reports, current=STARTED, **changes):
    return snapshot(job(status(current)), pod(), reports=reports, **changes)


def said(decision) -> tuple[str, str | None, str]:
    """Phase, reason and the words of the decision."""
    found = decision.status
    return found.phase, found.reason, found.decision.message if found.decision else ""


def progressing(decision) -> tuple[str, str, str]:
    one = next(one for one in decision.status.conditions if one.type == "Progressing")
    return one.status, one.reason, one.message


def after(snap, decision, *reports, seconds=0.0, **changes):
    """The next look, from the stored status."""
    return replace(
        snap, job=stored(snap.job, decision.status), now=at(seconds), reports={one.pod_uid: one for one in reports},
        **changes,
    )  # fmt: skip


# Breaks if a job that copies its data looks as if it trained, or as if nothing happened.
def test_it_starts_and_says_how_far_it_is():
    decision = settled(given(told()))
    assert said(decision) == ("Starting", "StagingData", "staging data: 12.0 of 40.0 GiB")
    assert progressing(decision) == ("False", "StagingData", "staging data: 12.0 of 40.0 GiB")
    assert decision.status.current.state is AttemptState.RUNNING
    assert decision.status.current.first_step is None


def test_small_data_has_small_units():
    small = told(staging=Staging(512, 1023))
    assert said(settled(given(small)))[2] == "staging data: 512 of 1023 bytes"


# Breaks if each report of each pod is a write to the API server.
def test_other_figures_wait_for_the_interval():
    first = given(told())
    decision = settled(first)
    soon = settled(after(first, decision, told(13 * GIB, received_at=at(2)), seconds=3))
    assert soon.status == stored(first.job, decision.status).status
    assert soon.requeue_at <= at(15)
    later = after(first, decision, told(20 * GIB, received_at=at(14)), seconds=16)
    assert said(settled(later))[2] == "staging data: 20.0 of 40.0 GiB"


def test_the_end_of_the_copy_is_said():
    first = given(told())
    over = settled(after(first, settled(first), told(40 * GIB, over=True), seconds=3))
    assert said(over) == ("Running", None, "the data is there: 40.0 GiB; the program starts on node n1 (spot)")
    assert said(settled(given(told(40 * GIB, over=True))))[:2] == ("Running", None)


# Breaks if the last report is lost with the operator that had it, and the job looks for ever as if it copied data.
def test_a_copy_that_is_not_heard_of_is_not_told_any_more():
    first = given(told())
    decision = settled(first)
    fresh = settled(after(first, decision, seconds=20, listening_since=at(10)))
    assert said(fresh)[2] == "staging data: 12.0 of 40.0 GiB"
    silent = settled(after(first, decision, seconds=200, listening_since=at(10)))
    assert said(silent) == ("Running", None, "the program starts on node n1 (spot)")
    stale = settled(after(first, decision, told(), seconds=200, listening_since=at(10)))
    assert said(stale)[:2] == ("Running", None)


# Breaks if the copy counts as the program: as its fence, its first step, or as a successor that is ready.
def test_a_copy_is_no_report_of_the_program():
    successor = attempt(2, predecessor=1)
    before = status(attempt(fenced=True, first_step=5), successor=successor)
    pods = (pod(), pod(2, node="n2"))
    decision = settled(snapshot(job(before), *pods, reports=[report(), told(number=2, state="waiting")]))
    assert decision.status.current.number == 1
    assert decision.status.successor.fenced is False
    assert said(decision)[0] == "Running"


# Breaks if a successor that copies for longer than a start may take is given up after it was let pass.
def test_an_attempt_that_was_let_pass_may_still_copy():
    passed = attempt(go=7, predecessor=0)
    known = snapshot(job(status(passed)), pod(), listening_since=at(-4000), reports=[told()])
    waited = replace(known.config, start_timeout=at(400) - at(0))
    assert "never passed" not in settled(replace(known, config=waited)).trace
    assert "never passed" in settled(replace(known, config=waited, reports={})).trace


class Copying(GangWorld):
    """A training on two nodes whose launchers copy data and are not ready."""

    def snapshot(self) -> Snapshot:
        """No launcher has called yet."""
        return replace(super().snapshot(), members={})

    def tell(self, *bytes_: int) -> None:
        """Each pod reports how much it has; 40 GiB are all."""
        for uid, size in zip(sorted(self.pods), bytes_, strict=True):
            staging = Staging(size, 40 * GIB, size == 40 * GIB)
            self.reports[uid] = Report(uid, 1, self.now, "starting", staging=staging)


# Breaks if only rank 0 is shown, or a copy that takes longer than a start may take counts as a lost launcher.
def test_several_nodes_copy_each_for_itself():
    world = Copying(2)
    world.settle()
    for minutes in range(40):
        world.tell(40 * GIB, minutes * GIB)
        world.pass_time(60)
    assert world.status.reason == "StagingData"
    assert world.status.decision.message == "staging data on 1 of 2 nodes: 79.0 of 80.0 GiB"
    assert world.status.attempt == 1
    limit = CONFIG.start_timeout.total_seconds()
    world.pass_time(limit - 70)
    assert world.status.attempt == 1
    world.pass_time(20)
    assert (world.status.attempt, world.status.history[-1].reason) == (2, "StartTimeout")
