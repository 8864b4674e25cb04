"""When a save is due, and how failed saves are reported."""

import pytest

from holdfast_protocol.figures import Figures
from holdfast_protocol.settings import Every
from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.progress import Progress
from holdfast_train.save import schedule
from holdfast_train.save.schedule import STUCK_SECONDS, SaveSchedule, one_line
from holdfast_train.timings import USUAL, Timings


def test_a_failed_save_is_due_again_soon() -> None:
    found = SaveSchedule(Progress())
    assert not found.is_due(7, Every(steps=5))
    found.record_failed(StorageUnreachableError("down"))
    assert not found.is_due(10, Every(steps=5))  # not at once: training would wait for a save at every step
    found = SaveSchedule(Progress(), timings=Timings(retry=0.0))
    assert not found.is_due(7, Every(steps=5))
    found.record_failed(StorageUnreachableError("down"))
    assert found.is_due(11, Every(steps=5))


def test_a_shortage_of_memory_is_said_once_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    found = SaveSchedule(progress)
    assert [found.record_memory(words) for words in ("", "no room", "no room", "less room")] == [
        False,
        True,
        False,
        False,
    ]
    assert progress.memory_warning == "less room"
    assert capsys.readouterr().err == "holdfast: no room\n"
    assert not found.record_memory("")
    assert progress.memory_warning is None
    found.record_memory("x" * 900)
    assert progress.memory_warning == "x" * 256, "the operator refuses a longer one"


def test_a_kept_save_is_not_due_again_and_does_not_count_as_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if training stops for another copy of its state, or if an hour of outage makes saves rare."""
    clock = Clock(monkeypatch)
    progress = Progress()
    found = SaveSchedule(progress)
    found.start(None)
    every = Every(seconds=600.0)
    found.record_begun()
    found.record_failed(StorageUnreachableError("down"), is_kept=True)
    assert progress.save_error == "StorageUnreachable: down"
    clock.now += 2 * USUAL.retry
    assert not found.is_due(10, every)
    clock.now += 600.0
    assert found.is_due(11, every)
    found.record_saved(Saved(10, "memory://store/manifests/x.json", 1 << 30, 630.0, ""), 0.1, was_kept=True)
    assert (progress.save_error, found.saved_step, found.costs) == (None, 10, ())


class Clock:
    """A clock that moves only if a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(schedule.time, "monotonic", lambda: self.now)


def test_auto_follows_what_saves_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, auto = Clock(monkeypatch), Every(mean_time_between_interruptions=7200.0)
    found = SaveSchedule(Progress())

    def steps_until_due() -> int:
        for number in range(1, 10_000):
            clock.now += 1.0
            if found.is_due(number, auto):
                return number
        raise AssertionError("no save was due in three hours")

    def save(seconds: float, lost: float) -> None:
        found.record_begun()
        clock.now += seconds
        found.record_saved(Saved(1, "memory://store/manifests/x.json", 1 << 30, seconds, ""), lost)

    clock.now += 500.0  # loading takes time, but is not training
    found.start(None)
    assert steps_until_due() == 383
    save(1.0, lost=1.0)  # training waited; the interval counts from the beginning of the save
    assert steps_until_due() == 120
    save(40.0, lost=1.0)  # in the background: it is committed 40 s after the interval began
    assert steps_until_due() == 81


def test_a_save_begins_before_a_step_that_would_exceed_max_lost_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, every = Clock(monkeypatch), Every(steps=1000, max_lost_work=60.0)
    found = SaveSchedule(Progress())
    found.start(None)
    found.record_begun()
    found.record_saved(Saved(1, "memory://store/manifests/x.json", 1 << 30, 10.0, ""), 0.0)
    for step in range(1, 5):
        clock.now += 10.0
        assert not found.is_due(step, every)  # 40 s old at most, and 10 s for a save: the next step ends at 50 s
    clock.now += 10.0
    assert found.is_due(5, every)


def test_the_cost_of_a_save_is_what_it_uploaded() -> None:
    """Breaks if the rate of a save that reused frozen parameters counts bytes that it did not upload."""
    found = SaveSchedule(Progress())
    found.record_saved(Saved(1, "memory://store/manifests/x.json", 1000, 10.0, "", shared=900), 0.0)
    found.record_saved(Saved(2, "memory://store/manifests/y.json", 1000, 1.0, "", shared=900, reused=900), 0.0)
    assert [cost.size for cost in found.costs] == [1000, 100]


def test_what_saves_cost_is_reported() -> None:
    """Breaks if people cannot see that saves slow their training, or if one slow save looks like all of them."""
    progress = Progress()
    found = SaveSchedule(progress)
    for lost in (0.5, 0.25, 30.0):
        found.record_saved(Saved(1, "memory://store/manifests/x.json", 1000, 10.0, ""), lost)
    assert progress.measured == Figures(save_cost="0.5")


def test_a_max_lost_work_that_cannot_be_met_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = SaveSchedule(Progress())
    found.is_due(1, Every(steps=1000, max_lost_work=60.0))
    for _ in range(3):
        found.record_saved(Saved(1, "memory://store/manifests/x.json", 1 << 30, 50.0, ""), 0.0)
    assert capsys.readouterr().err.count("maxLostWork (60 s) cannot be met") == 1


def test_a_skipped_save_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a skipped save restarts the interval or the time that maxLostWork allows, or waits for N more steps."""
    clock = Clock(monkeypatch)
    for every in (
        Every(steps=1000, max_lost_work=60.0),
        Every(seconds=30.0),
        Every(mean_time_between_interruptions=600.0),
    ):
        found = SaveSchedule(Progress())
        found.start(None)
        clock.now += 200.0
        assert found.is_due(1, every)
        for step in range(2, 5):
            found.record_skipped()
            clock.now += 1.0
            assert found.is_due(step, every)
        found.record_begun()
        clock.now += 1.0
        assert not found.is_due(5, every)


def test_a_skipped_save_of_every_n_steps_is_due_at_the_next_step() -> None:
    found, every = SaveSchedule(Progress()), Every(steps=500)
    assert found.is_due(500, every)
    found.record_skipped()
    assert found.is_due(501, every)
    found.record_begun()
    assert not any(found.is_due(step, every) for step in range(502, 1000))
    assert found.is_due(1000, every)


def test_skipped_saves_are_logged_once_and_reported_if_they_stay_stuck(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    progress = Progress()
    found = SaveSchedule(progress)
    found.is_due(1, Every(steps=1))
    for row in (1, 2):
        for _ in range(3):
            found.record_skipped()
        assert progress.save_error is None, "two overlapping saves are not an error"
        clock.now += STUCK_SECONDS
        found.record_skipped()
        assert progress.save_error is not None
        assert progress.save_error.startswith("SaveSkipped: a save is due, but earlier ones are still in flight")
        assert progress.save_error.endswith("another copy of its state")
        found.record_begun()
        assert progress.save_error is not None
        found.record_saved(Saved(1, "memory://store/manifests/x.json", 1 << 30, 1.0, ""), 0.0)
        assert progress.save_error is None
        assert capsys.readouterr().err.count("no memory for another;") == 1, row
    found.record_skipped(at_most=True)  # breaks if a trainer with enough memory is told to have more
    assert "both copies of the state that a trainer may make; save less often" in capsys.readouterr().err
    other = SaveSchedule(Progress())
    other.record_skipped()  # on a rank where nothing asks `is_due`: rank 0 logs for all
    assert capsys.readouterr().err == ""


def test_reports_contain_no_secrets() -> None:
    progress = Progress()
    keys = Credentials("AKIAKEY", "the+secret", "the-token")
    SaveSchedule(progress, keys).record_failed(StorageDeniedError("AKIAKEY, the+secret and the-token are refused"))
    assert progress.save_error == "StorageDenied: ..., ... and ... are refused"


def test_one_line() -> None:
    assert one_line("a\n b\x1b[0m\t c") == "a b [0m c"
    assert one_line("at https://user:pass@host/bucket") == "at https://host/bucket"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 197 + "..."


def test_a_save_that_is_due_a_step_ahead_stays_due_for_the_step_on_which_ranks_agree() -> None:
    """Breaks if ranks that agree on step 11, because one has done step 10 already, do not save until step 20."""
    found, every = SaveSchedule(Progress()), Every(steps=10)
    assert not found.is_due(8, every, ahead=1)
    assert found.is_due(9, every, ahead=1)
    assert found.is_due(10, every, ahead=1)  # still, and not because of step 11
    assert found.is_due(11, every)
    found.record_begun()
    assert not found.is_due(11, every, ahead=1)
    assert not found.is_due(12, every)


def test_a_save_that_begins_otherwise_is_planned_no_more() -> None:
    found, every = SaveSchedule(Progress()), Every(steps=10)
    assert found.is_due(9, every, ahead=1)
    found.record_begun()  # the program has called run.save()
    assert not found.is_due(11, every)


def test_asking_ahead_counts_the_step_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """With max_lost_work, the state may be as old as it gets after the step that is still to be done."""
    clock, every = Clock(monkeypatch), Every(steps=1000, max_lost_work=60.0)
    found = SaveSchedule(Progress())
    found.start(None)
    clock.now += 9.0
    assert not found.is_due(1, every)
    clock.now += 9.0
    assert not found.is_due(2, every)
    assert found.is_due(2, every, ahead=1)  # 18 s and two steps of 9 s; half of the limit may be the commit
