from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions import snapshots
from tests.support.operator.fake_api_server import Clock

from holdfast.api.status import TrainingJobStatus
from holdfast.core.decide import decide
from holdfast.serve.reports import ReportBook
from holdfast_protocol.document import DocumentError
from holdfast_protocol.report import Sender, read

JOB = ("ns", "a")
SAVED = {"step": 5, "uri": "s3://b/p", "bytes": 9, "seconds": "0.1", "committedAt": "2026-11-21T12:00:00Z"}


class Desk:
    """A book, and what it woke."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.woken: list[bool] = []
        self.book = ReportBook(lambda job, urgent: self.woken.append(urgent), timedelta(seconds=15))

    def say(self, sender: str = "Library", **fields: Any) -> None:
        body = {"sender": sender, "attempt": 1, "podUID": "p1", "state": "training", **fields}
        self.book.receive(JOB, read(body), self.clock.now())

    @property
    def report(self) -> Any:
        return self.book.of(["p1"])["p1"]


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.say(state="starting")
    desk.say(step=3)
    desk.woken.clear()
    return desk


# Breaks if a report without a figure, as the one that a program sends at its end, clears the peak of its memory.
def test_the_peak_of_memory_stays_and_the_wait_for_data_does_not(desk: Desk) -> None:
    desk.say(step=4, figures={"peakMemory": 5 << 30, "dataWait": "0.4"})
    assert (desk.report.figures.peak_memory, desk.report.figures.data_wait) == (5 << 30, "0.4")
    desk.say(step=5)
    assert (desk.report.figures.peak_memory, desk.report.figures.data_wait) == (5 << 30, None)


# Breaks if a program that uses the library is taken for one without, because something in it speaks to the launcher.
def test_the_library_counts_more_than_the_relay() -> None:
    desk = Desk()
    desk.say("Relay", step=50)
    assert desk.report.relayed
    desk.say(step=3)
    desk.say("Relay", step=51)
    assert (desk.report.step, desk.report.first_step, desk.report.relayed) == (3, 3, False)
    desk.say("Relay", attempt=2, step=51)
    assert (desk.report.step, desk.report.relayed) == (51, True)


# Breaks if the run that the launcher knows is lost once the library reports, or either of them forgets its own; or if a
# program that has many runs wakes the job for each of them.
def test_each_sender_may_know_a_run_in_a_tracker() -> None:
    desk = Desk()
    desk.say("Relay", state="starting", tracking={"mlflow": "https://m", "wandb": "https://old"})
    desk.say(step=3, tracking={"wandb": "https://w"})
    desk.woken.clear()
    for number in range(1000):
        desk.say(tracking={"wandb": f"https://w/{number}"})
    desk.say("Relay", state="starting")
    desk.say(step=4)
    assert dict(desk.report.tracking) == {"mlflow": "https://m", "wandb": "https://w/999"}
    assert desk.woken == []


RESUMED = {"step": 20, "uri": "s3://b/p", "note": ""}


# Breaks if the step of a program hides what is saved of its folder, or the writer of the folder hides the step.
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_relay_and_the_writer_of_the_folder_are_one_report(order: tuple[int, int]) -> None:
    desk = Desk()
    says: list[dict[str, Any]] = [
        {"sender": "Relay", "step": 25, "steps": 90, "figures": {"loss": "1.5", "secondsPerStep": "0.5"}},
        {"sender": "Folder", "resumedFrom": RESUMED, "saveError": "full"},
    ]
    for number in (*order, *order):
        desk.say(**says[number])
    report = desk.report
    assert (report.step, report.steps, report.figures.loss, report.figures.seconds_per_step) == (25, 90, "1.5", "0.5")
    assert (report.resumed_step, report.first_step, report.save_error) == (20, 25, "full")
    assert (report.relayed, report.folder, report.ignored_step) == (True, True, None)
    desk.say("Folder", checkpoint=SAVED)
    desk.say("Relay", step=26)
    assert (report.save_error, desk.report.save_error, desk.report.checkpoint.step) == ("full", None, 5)
    assert desk.report.first_step == 25


def test_checkpoints_without_a_step_follow_each_other() -> None:
    """Breaks if such a checkpoint is refused or ignored: its job would look like one that saves nothing."""
    desk, saved = Desk(), []
    desk.book.saved = saved.append
    first, second = ({**SAVED, "step": None, "uri": f"s3://b/{name}"} for name in "pq")
    desk.say("Folder")
    for told in (SAVED, first, second, SAVED, {**SAVED, "step": 4}):
        desk.say("Folder", checkpoint=told)
    assert [one.step for one in saved] == [5, None, None, 5]
    assert desk.report.checkpoint.step == 5


def test_what_was_saved_before_the_operator_listened_is_not_counted_as_new() -> None:
    """Breaks if an operator that restarts counts a checkpoint again because another sender was faster."""
    desk, saved = Desk(), []
    desk.book.saved = saved.append
    desk.say("Relay", step=25)
    desk.say("Folder", checkpoint=SAVED)
    assert saved == []
    desk.say("Folder", checkpoint={**SAVED, "step": 6})
    desk.say("Folder", checkpoint={**SAVED, "step": 6})
    assert [one.step for one in saved] == [6]


# Breaks if a program that does not resume from the folder is said to have lost nothing.
def test_a_program_that_begins_anew_beside_what_was_put_back() -> None:
    desk = Desk()
    desk.say("Folder", resumedFrom=RESUMED)
    assert desk.report.resumed_step == 20
    desk.say("Relay", step=3)
    desk.say("Folder", resumedFrom=RESUMED)
    desk.say("Relay", step=30)
    assert (desk.report.resumed_step, desk.report.ignored_step, desk.report.first_step) == (None, 20, 3)


# Breaks if a program that resumed is said to have begun anew, because its report came before that of the writer.
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_program_that_tells_the_step_that_was_put_back_has_resumed(order: tuple[int, int]) -> None:
    desk = Desk()
    says: list[dict[str, Any]] = [{"sender": "Relay", "step": 20}, {"sender": "Folder", "resumedFrom": RESUMED}]
    for number in order:
        desk.say(**says[number])
    assert (desk.report.resumed_step, desk.report.ignored_step, desk.report.first_step) == (20, None, None)
    desk.say("Relay", step=21)
    assert (desk.report.resumed_step, desk.report.ignored_step, desk.report.first_step) == (20, None, 21)


# Breaks if a program is said to have resumed at step 0 because the name of its checkpoint says no step.
# Breaks if what one attempt put back, saved or trained counts for the next one in the same pod, or if a report of the
# earlier attempt, which comes late, takes the place of what the newer one has said.
def test_each_attempt_in_the_same_pod_has_reports_of_its_own() -> None:
    desk = Desk()
    desk.say("Folder", resumedFrom={"step": 5, "uri": "s3://b/p"}, checkpoint=SAVED)
    desk.say("Relay", step=9)
    assert (desk.report.resumed_step, desk.report.first_step, desk.report.step) == (5, 9, 9)
    desk.say("Folder", attempt=2, state="starting")
    assert (desk.report.attempt, desk.report.checkpoint, desk.report.step) == (2, None, None)
    desk.say("Folder", attempt=2, resumedFrom={"step": 7, "uri": "s3://b/p"})
    desk.say("Relay", step=10)
    assert (desk.report.attempt, desk.report.senders) == (2, ("Folder",))
    desk.say("Relay", attempt=2, step=8)
    assert (desk.report.resumed_step, desk.report.first_step, desk.report.step) == (7, 8, 8)


def test_what_was_put_back_may_say_no_step() -> None:
    desk = Desk()
    desk.say("Folder", resumedFrom={**RESUMED, "step": 0})
    desk.say("Relay", step=200)
    desk.say("Folder")
    report = desk.report
    assert (report.resumed_step, report.first_step, report.put_back_without_step) == (None, 200, True)
    desk.say("Folder", attempt=2)
    assert not desk.report.put_back_without_step


def test_the_first_report_and_the_first_step_wake_at_once() -> None:
    desk = Desk()
    desk.say()
    desk.say(step=1)
    assert desk.woken == [True, True]


@pytest.mark.parametrize(
    "news",
    [
        {"fenced": True},
        {"acknowledged": 1},
        {"checkpoint": SAVED},
        {"saveError": "StorageDenied: no"},
        {"memoryWarning": "a save does not fit"},
        {"state": "saving"},
        {"resumedFrom": {"step": 2, "uri": "u"}},
    ],
)
def test_what_a_decision_may_depend_on_wakes_at_once_and_only_once(desk: Desk, news: dict[str, Any]) -> None:
    desk.say(step=3, **news)
    desk.say(step=4, **news)
    assert desk.woken == [True]


def test_mere_progress_wakes_once_in_an_interval(desk: Desk) -> None:
    for step in range(4, 64):
        desk.clock.tick(1)
        desk.say(step=step)
    assert desk.woken == [False] * 4


def test_times_are_the_operators_and_of_the_first_and_the_last_growth(desk: Desk) -> None:
    start = desk.clock.now()
    desk.clock.tick(5)
    desk.say(step=4, sentAt="1999-01-01T00:00:00Z")
    desk.clock.tick(5)
    desk.say(step=4, acknowledged=2)
    report = desk.report
    assert (report.first_step, report.first_step_at) == (3, start)
    assert report.step_at == start + timedelta(seconds=5)
    assert report.received_at == report.acknowledged_at == start + timedelta(seconds=10)


def test_the_step_that_was_restored_is_not_a_step_of_its_own() -> None:
    """Breaks if an interruption is settled, or an attempt counted as fruitful, before it has trained at all."""
    desk = Desk()
    desk.say(state="starting", step=20, resumedFrom={"step": 20, "uri": "u"})
    assert (desk.report.step, desk.report.first_step, desk.report.first_step_at) == (20, None, None)
    desk.clock.tick(5)
    desk.say(step=21)
    assert (desk.report.first_step, desk.report.first_step_at) == (21, desk.clock.now())


def test_the_trainer_knows_its_first_step_and_when() -> None:
    """Breaks if history begins with the step that the operator happened to see, late or after a restart of its own."""
    desk = Desk()
    start = desk.clock.now()
    resumed = {"step": 100, "uri": "u"}
    desk.say(state="starting", step=100, resumedFrom=resumed)
    assert desk.report.first_step is None
    desk.clock.tick(5)
    desk.say(step=103, resumedFrom=resumed, firstStep={"step": 101, "secondsAgo": "3.5"})
    desk.clock.tick(5)
    desk.say(step=104, firstStep={"step": 101, "secondsAgo": "8.7"})
    report = desk.report
    assert (report.first_step, report.first_step_at) == (101, start + timedelta(seconds=1.5))


@pytest.mark.parametrize(
    "said", [None, {"step": 100, "secondsAgo": "1"}, {"step": 104, "secondsAgo": "1"}, {"step": 0, "secondsAgo": "1"}]
)
def test_a_first_step_that_cannot_be_is_the_first_one_seen(said: dict[str, Any] | None) -> None:
    desk = Desk()
    desk.say(step=103, resumedFrom={"step": 100, "uri": "u"}, firstStep=said)
    assert (desk.report.first_step, desk.report.first_step_at) == (103, desk.clock.now())


@pytest.mark.parametrize(("ago", "seconds"), [("-5", 0), ("9e999", 366 * 86400)])
def test_the_age_of_a_first_step_is_bounded(ago: str, seconds: int) -> None:
    desk = Desk()
    desk.say(step=3, firstStep={"step": 1, "secondsAgo": ago})
    assert desk.report.first_step_at == desk.clock.now() - timedelta(seconds=seconds)


def test_what_was_said_once_still_holds(desk: Desk) -> None:
    desk.say(
        fenced=True,
        figures={"loss": "2.5"},
        checkpoint=SAVED,
        acknowledged=3,
        resumedFrom={"step": 2, "uri": "u", "note": "older"},
    )
    desk.say(state="left")
    report = desk.report
    assert (report.fenced, report.figures.loss, report.step, report.acknowledged) == (True, "2.5", 3, 3)
    assert (report.resumed_step, report.resume_note, report.checkpoint.step) == (2, "older", 5)


def test_a_failed_save_holds_only_until_one_succeeds(desk: Desk) -> None:
    desk.say(storageSilence={"seconds": "4.0", "why": "refused"})
    assert (desk.report.storage_silence.why, desk.woken.pop()) == ("refused", True)
    assert desk.report.storage_silence.since == desk.report.received_at - timedelta(seconds=4)
    desk.say()
    assert (desk.report.storage_silence, desk.woken.pop()) == (None, True)
    desk.say(saveError="StorageDenied: no")
    desk.say(saveError="StorageDenied: still no")  # another message alone does not wake the job
    assert (desk.report.save_error, desk.woken) == ("StorageDenied: still no", [True])
    desk.say()
    assert (desk.report.save_error, desk.woken) == (None, [True, True])


def test_pods_and_jobs_that_are_gone_are_forgotten(desk: Desk) -> None:
    desk.book.keep_only(["other"], [])
    assert len(desk.book) == 0
    assert desk.book.of(["p1"]) == {}


# Breaks if a metric that is reported seldom, such as an accuracy, vanishes with the next report.
def test_metrics_stay_until_there_are_newer_ones(desk: Desk) -> None:
    desk.say(step=4, metrics={"accuracy": "0.5", "norm": "1"})
    desk.say(step=5, metrics={"norm": "nan"})
    desk.say(step=6)
    assert dict(desk.report.metrics) == {"accuracy": "0.5", "norm": "nan"}
    desk.say(step=7, metrics={f"m{n}": "1" for n in range(16)})
    assert len(desk.report.metrics) == 16


# Breaks if a training waits for a slow rank until something else happens, or if each figure wakes the operator.
def test_another_slow_rank_is_urgent_and_another_figure_is_not(desk: Desk) -> None:
    slow = {"rank": 3, "pod": 1, "ownSeconds": "0.9", "othersSeconds": "0.5", "stepSeconds": "1.0"}
    desk.say(slowRanks=[slow])
    desk.say(slowRanks=[{**slow, "ownSeconds": "0.8"}])
    assert desk.woken == [True]
    (told,) = desk.report.slow_ranks
    assert (told.rank, told.pod, told.times, round(told.share, 3)) == (3, 1, 1.6, 0.3)
    desk.say()
    assert desk.woken == [True, True]
    assert desk.report.slow_ranks == ()


NUMBERS = st.sampled_from(["0", "-1", "0.9", "1e-5", "9" * 30, "1e9999", "-.5", "nan", "\N{ARABIC-INDIC DIGIT TWO}"])
COUNTS = st.one_of(st.integers(-1, 3), st.sampled_from([1023, 1024, 2**20, 2**31 - 1, 2**53]))
SLOW_RANKS = st.lists(
    st.fixed_dictionaries({
        "rank": COUNTS, "pod": COUNTS, "ownSeconds": NUMBERS, "othersSeconds": NUMBERS, "stepSeconds": NUMBERS,
    }),
    max_size=9,
)  # fmt: skip
FIGURES = st.fixed_dictionaries(
    {},
    optional={
        "loss": NUMBERS, "samplesPerSecond": NUMBERS, "secondsPerStep": NUMBERS, "dataWait": NUMBERS,
        "peakMemory": COUNTS, "aNewOne": NUMBERS,
    },
)  # fmt: skip
BODIES = st.fixed_dictionaries(
    {
        "sender": st.sampled_from(get_args(Sender)), "attempt": st.just(1), "podUID": st.just("u-1"),
        "state": st.sampled_from(["training", "saving", "completed"]),
    },
    optional={
        "step": COUNTS, "steps": COUNTS, "figures": FIGURES,
        "metrics": st.dictionaries(st.sampled_from(["a", "b/c", "x" * 64]), NUMBERS), "slowRanks": SLOW_RANKS,
        "saveError": st.text(max_size=256), "memoryWarning": st.text(max_size=256),
    },
)  # fmt: skip


@given(BODIES)
def test_the_status_after_any_report_that_is_accepted_can_be_stored(said: dict[str, Any]) -> None:
    """Breaks if a program can tell something that makes a status which the API server refuses."""
    try:
        body = read(said)
    except DocumentError:
        return
    desk = Desk()
    desk.book.receive(JOB, body, snapshots.NOW)
    current = snapshots.attempt(fenced=True, first_step=1)
    job = snapshots.job(snapshots.status(current))
    decision = decide(snapshots.snapshot(job, snapshots.pod(), reports=[desk.book.of(["u-1"])["u-1"]]))
    TrainingJobStatus.model_validate(decision.status.to_object())


STAGING = {"bytes": 5, "total": 40, "over": False}


# Breaks if the end of the copy waits for the next interval, or each figure of it wakes the job.
def test_a_copy_of_data_wakes_at_its_end() -> None:
    desk = Desk()
    desk.say("Stager", state="starting", staging=STAGING)
    desk.say("Stager", state="starting", staging={**STAGING, "bytes": 9})
    desk.say("Stager", state="starting", staging={**STAGING, "bytes": 40, "over": True})
    assert desk.woken == [True, True]
    assert (desk.report.staging.bytes, desk.report.staging.over) == (40, True)


# Breaks if a program without the library is not heard, because something in its pod has copied data before.
@pytest.mark.parametrize("sender", ["Relay", "Library"])
def test_the_program_counts_anew_after_a_copy(sender: str) -> None:
    desk = Desk()
    desk.say("Stager", state="starting", staging=STAGING)
    desk.say(sender, step=7)
    assert (desk.report.step, desk.report.senders, desk.report.staging) == (7, (sender,), None)


@pytest.mark.parametrize("staging", [{"bytes": -1, "total": 1}, {"bytes": 1, "total": 2**63}, {"bytes": 1}, 3])
def test_figures_of_a_copy_that_cannot_be(staging: Any) -> None:
    with pytest.raises(DocumentError):
        Desk().say("Stager", state="starting", staging=staging)
