"""From reports to status: at a bounded rate, and safe with any report."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError
from tests.support.decisions.running_gangs import running
from tests.support.decisions.snapshots import (
    at,
    attempt,
    ended,
    job,
    nodes,
    pending,
    pod,
    report,
    settled,
    silent,
    snapshot,
    status,
    stepped,
    verdict,
)

from holdfast.api.attempt import AttemptRecord, AttemptState
from holdfast.api.status import CheckpointStatus, Phase, Progress, TrackerRun
from holdfast.core.made_from import made_from
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.report import SavedCheckpoint
from holdfast_protocol.tracking import MAX_TRACKERS

RUNNING = attempt(fenced=True, first_step=500)
SAVED = SavedCheckpoint(600, "s3://runs/vision/vit/manifests/600", 4096, at(-20))


def take(*, before=None, wanted=None, slot=True, **report):
    given = job(status(RUNNING, progress=before or Progress()), goal={"steps": wanted} if wanted else {})
    return settled(snapshot(given, pod(), reports=[stepped(**report)], progress_slot=slot))


def test_a_first_report_is_written():
    after = take(wanted=1000, loss="2.113", samples_per_second="1234.5", seconds_per_step="0.5").status
    assert after.progress == Progress(
        step=700,
        steps=1000,
        percent="70.0",
        eta=at(149),
        loss="2.113",
        samples_per_second="1234.5",
        seconds_per_step="0.5",
        updated_at=at(-1),
    )
    assert (after.current.last_step, after.current.last_step_at) == (700, at(-1))


def settled_before(seconds):
    """A job whose conditions are in order, so that progress is the only news."""
    first = take(before=Progress(step=1, updated_at=at(-seconds)), received_at=at(-seconds))
    return job(first.status)


# Breaks if the peak is lost with a pod that reports none, or an attempt that has ended still waits for data.
def test_memory_stays_and_the_wait_for_data_does_not():
    known = Progress(peak_memory=5 << 30, data_wait="0.4", updated_at=at(-60))
    after = take(before=known, data_wait="0.1").status.progress
    assert (after.peak_memory, after.data_wait) == (5 << 30, "0.1")
    after = take(before=known, peak_memory=6 << 30).status.progress
    assert (after.peak_memory, after.data_wait) == (6 << 30, None)


@pytest.mark.parametrize(("age", "slot", "written"), [(14, True, False), (15, True, True), (15, False, False)])
def test_progress_alone_is_written_at_most_every_interval(age, slot, written):
    given = settled_before(age)
    decision = settled(snapshot(given, pod(), reports=[stepped()], progress_slot=slot))
    assert (decision.status.progress.updated_at == at(-1)) is written
    if not written:
        assert decision.status == given.status
        assert decision.requeue_at == (at(1) if age == 14 else at(119))  # the runtime knows when its slot is


def test_progress_goes_along_with_any_other_change():
    given = settled_before(3)
    decision = settled(snapshot(given, ended(1, 0, verdict("completed", "Exited")), reports=[stepped()]))
    assert decision.status.progress.updated_at == at(-1)


def test_an_old_pods_report_is_ignored():
    given = job(status(attempt(2, fenced=True, first_step=1), progress=Progress(step=9, updated_at=at(-1))))
    assert settled(snapshot(given, ended(1), pod(2), reports=[stepped(1)])).status.progress.step == 9


def test_the_newest_attempts_report_counts():
    given = job(status(attempt(2, fenced=True, first_step=1)))
    decision = settled(
        snapshot(given, ended(1), pod(2), reports=[stepped(1, 700), stepped(2, 650, received_at=at(-9))])
    )
    assert decision.status.progress.step == 650


@pytest.mark.parametrize(
    ("step", "goal", "percent"), [(0, 3, "0.0"), (2, 3, "66.6"), (999, 1000, "99.9"), (9, 3, "100.0")]
)
def test_percent_is_rounded_down(step, goal, percent):
    assert take(wanted=goal, step=step).status.progress.percent == percent


def test_without_a_goal_the_programs_own_counts():
    assert take(steps=1400).status.progress.percent == "50.0"
    assert take().status.progress.percent is None


# Breaks if a job is called done, or far from it, by a goal that the program does not train to: nothing of it is saved,
# so it goes on with the goal that it has.
@pytest.mark.parametrize("says", [{"steps": 20}, {"steps": 90_000}, {}])
@pytest.mark.parametrize("told", [1400, None])
def test_a_goal_that_waits_for_the_next_attempt_does_not_count(says, told):
    runs = attempt(first_step=500, made_from=made_from(job(goal={"steps": 1400}).spec))
    given = job(status(runs, progress=Progress(step=600, steps=1400)), goal=says)
    told_now = stepped(steps=told, seconds_per_step="1", fenced=False)
    after = settled(snapshot(given, pod(), reports=[told_now])).status
    assert (after.current.number, after.current.state) == (1, AttemptState.RUNNING)
    assert (after.progress.steps, after.progress.percent, after.progress.eta) == (1400, "50.0", at(699))


@pytest.mark.parametrize("pace", ["nan", "-1", "1e9999", "1e12", "inf", "x", None])
def test_an_impossible_pace_has_no_eta(pace):
    assert take(wanted=2**53 - 1, seconds_per_step=pace).status.progress.eta is None


def test_a_finished_job_has_no_eta():
    decision = settled(
        snapshot(
            job(status(RUNNING), goal={"steps": 1000}),
            ended(1, 0, verdict("completed", "Exited")),
            reports=[stepped(seconds_per_step="1", data_wait="0.4")],
        )
    )
    assert (decision.status.progress.eta, decision.status.progress.samples_per_second) == (None, None)
    assert decision.status.progress.data_wait is None


MLFLOW = TrackerRun(tracker="mlflow", url="https://mlflow.example/#/experiments/0/runs/1")


def wandb(number):
    return TrackerRun(tracker="wandb", url=f"https://wandb.ai/{number}")


def told(*runs):
    return tuple((run.tracker, run.url) for run in runs)


# Breaks if the run is forgotten between two attempts, or if a program that has another run shows the one before.
def test_the_runs_in_trackers_stay_until_another_one_is_told():
    after = take(tracking=told(MLFLOW, wandb(1))).status
    assert after.tracking == (MLFLOW, wandb(1))
    lost = settled(snapshot(job(after), cluster=nodes(without=("n1",)))).status
    assert lost.tracking == (MLFLOW, wandb(1))
    second = status(attempt(2, fenced=True, first_step=1), tracking=lost.tracking)
    for said, shown in (((), (MLFLOW, wandb(1))), ((wandb(2),), (MLFLOW, wandb(2)))):
        given = snapshot(job(second), pod(2), reports=[stepped(2, tracking=told(*said))])
        assert settled(given).status.tracking == shown


# Breaks if a program that changes its run all the time causes more writes than one that reports a loss.
@pytest.mark.parametrize(("age", "slot", "written"), [(14, True, False), (15, True, True), (15, False, False)])
def test_a_run_alone_is_written_at_most_every_interval(age, slot, written):
    given = settled_before(age)
    decision = settled(snapshot(given, pod(), reports=[stepped(tracking=told(wandb(1)))], progress_slot=slot))
    assert decision.status.tracking == ((wandb(1),) if written else ())


# Breaks if more runs than a status may have make each later status invalid.
def test_no_more_trackers_than_a_status_may_have():
    full = tuple(TrackerRun(tracker=f"t{n}", url="https://t") for n in range(MAX_TRACKERS))
    given = job(status(RUNNING, tracking=full))
    after = settled(snapshot(given, pod(), reports=[stepped(tracking=told(wandb(1)))])).status
    assert after.tracking == full


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://me:secret@w", "https://w/?key=x", "https://w\n"])
def test_a_status_has_no_other_addresses(url):
    with pytest.raises(ValidationError):
        TrackerRun(tracker="wandb", url=url)


FORESEEN = Progress(step=700, steps=1000, eta=at(149), loss="2.1", seconds_per_step="0.5", updated_at=at(-600))


# Breaks if a job that waits is told to be done at a time that comes and passes: a lost node sends no last report.
@pytest.mark.parametrize(
    ("fenced", "cluster", "phase"),
    [
        (False, nodes(silent(seconds=600)), Phase.RECOVERING),  # the old pod is waited for
        (True, nodes(silent(seconds=600)), Phase.ACQUIRING),
        (True, nodes(without=("n1",)), Phase.ACQUIRING),
        (True, nodes(), Phase.RUNNING),
    ],
)
def test_a_job_that_does_not_train_foresees_nothing(fenced: bool, cluster: ClusterView, phase: Phase) -> None:
    given = job(status(attempt(fenced=fenced, first_step=500), progress=FORESEEN))
    reports = [stepped(received_at=at(-600), fenced=fenced)]
    after = settled(snapshot(given, pod(), cluster=cluster, reports=reports)).status
    rested = {"eta": None, "seconds_per_step": None} if phase is not Phase.RUNNING else {}
    assert (after.phase, after.progress) == (phase, FORESEEN.model_copy(update=rested))


def test_a_checkpoint_is_remembered():
    assert take(checkpoint=SAVED).status.checkpoint == CheckpointStatus(
        step=600, uri=SAVED.uri, bytes=4096, committed_at=at(-20)
    )


def test_a_checkpoint_without_a_step_is_remembered_too():
    """Breaks if a job whose checkpoints say no step in their names looks like one that saves nothing."""
    taken = take(checkpoint=replace(SAVED, step=None)).status
    assert (taken.checkpoint.step, taken.checkpoint.committed_at, taken.progress.step) == (None, at(-20), 700)
    given = snapshot(
        job(status(attempt())), pod(), reports=[report(senders=("Folder",), checkpoint=replace(SAVED, step=None))]
    )
    assert settled(given).status.progress.step == 0


# Breaks if a program that tells no step is shown at step 0 although it has saved a later one.
def test_a_program_without_steps_shows_that_of_its_checkpoint():
    given = snapshot(job(status(attempt())), pod(), reports=[report(senders=("Folder",), checkpoint=SAVED)])
    shown = settled(given).status.progress
    assert (shown.step, shown.eta) == (600, None)


def test_a_checkpoint_that_does_not_fit_breaks_nothing():
    """A program may report any size; the decision must not fail."""
    huge = SavedCheckpoint(600, "s3://x", 2**63 - 1, at(-20))
    decision = take(checkpoint=huge)
    assert decision.status.checkpoint is None
    assert decision.status.progress.step == 700


def test_the_last_loss_stays_when_a_report_has_none():
    assert take(before=Progress(loss="1.5", updated_at=at(-60))).status.progress.loss == "1.5"


def test_metrics_are_written_and_stay_when_a_report_has_none():
    after = take(metrics=(("top5", "nan"), ("accuracy", "0.9"))).status.progress.metrics
    assert [(one.name, one.value) for one in after] == [("accuracy", "0.9"), ("top5", "nan")]
    assert take(before=Progress(metrics=after, updated_at=at(-60))).status.progress.metrics == after


# Breaks if the report of a pod that is kept for its logs replaces that of a later attempt whose pod is gone.
def test_an_older_pods_report_does_not_return_once_a_later_one_is_gone():
    later = AttemptRecord(
        number=2, tier="spot", kind="Interruption", reason="NodeGone", raised_at=at(-900), ended_at=at(-2),
        first_step=701, last_step=900,
    )  # fmt: skip
    saved = CheckpointStatus(step=880, uri="s3://runs/880", committed_at=at(-20))
    before = status(
        attempt(3, AttemptState.ACQUIRING),
        progress=Progress(step=900, updated_at=at(-60)),
        checkpoint=saved,
        history=(later,),
    )
    old = stepped(1, 700, checkpoint=SAVED, received_at=at(-600))
    after = settled(snapshot(job(before), ended(1), pending(3), reports=[old])).status
    assert (after.progress.step, after.checkpoint) == (900, saved)


def test_on_several_nodes_only_rank_0_reports_the_step():
    """Breaks if the step jumps to and fro between nodes, because the program of each prints its own."""
    world = running()
    world.pass_time(30)
    world.train()
    lead, other = world.uid(0), world.uid(1)
    step = world.reports[lead].step
    assert world.status.progress.step == step
    world.now += timedelta(seconds=30)
    told = {"pod_uid": other, "received_at": world.now, "step": 9999, "checkpoint": SAVED}
    world.reports[other] = replace(world.reports[lead], **told)
    world.decide()
    assert (world.status.progress.step, world.status.checkpoint.step) == (step, world.saved)


def test_a_job_that_completed_while_no_operator_ran_shows_the_step_of_the_verdict():
    before = Progress(step=960, steps=1000, percent="96.0", updated_at=at(-60))
    given = job(status(attempt(fenced=True, first_step=1), progress=before))
    done = settled(snapshot(given, ended(1, 0, verdict("completed", "Exited", step=1000)))).status
    assert (done.phase, done.progress.step, done.progress.percent) == ("Completed", 1000, "100.0")


def test_an_attempt_that_was_lost_does_not_raise_the_step():
    before = Progress(step=960, steps=1000, percent="96.0", updated_at=at(-60))
    given = job(status(attempt(fenced=True, first_step=1), progress=before))
    lost = settled(snapshot(given, ended(1, 1, verdict("drained", "SavedAndLeft", step=970)))).status
    assert lost.progress.step == 960
