"""When a save is due, and what is said of one that has failed."""

import pytest

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.environment import Credentials, Every
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.progress import Progress
from holdfast_train.save import schedule
from holdfast_train.save.schedule import STUCK_SECONDS, Saving, one_line


def test_failed_save_is_due_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Saving(Progress())
    assert not found.due(7, Every(steps=5))
    found.failed(StorageUnreachableError("down"))
    assert not found.due(10, Every(steps=5))  # not at once either: training would wait for it at every step
    monkeypatch.setattr(schedule, "RETRY_SECONDS", 0.0)
    found.failed(StorageUnreachableError("down"))
    assert found.due(11, Every(steps=5))


class Clock:
    """Stands where it is put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(schedule.time, "monotonic", lambda: self.now)


def test_auto_follows_what_saves_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, auto = Clock(monkeypatch), Every(auto=True, between_losses=7200.0)
    found = Saving(Progress())

    def steps_until_due() -> int:
        for number in range(1, 10_000):
            clock.now += 1.0
            if found.due(number, auto):
                return number
        raise AssertionError("no save was due in three hours")

    def save(seconds: float, lost: float) -> None:
        found.begun()
        clock.now += seconds
        found.succeeded(Saved(1, "memory://store/manifests/x.json", 1 << 30, seconds, ""), lost)

    clock.now += 500.0  # loading takes its time, and is not trained
    found.begin(None)
    assert steps_until_due() == 383
    save(1.0, lost=1.0)  # training has waited for it, and what was done until then is safe from its beginning on
    assert steps_until_due() == 120
    save(40.0, lost=1.0)  # in the background: 40 of the seconds until the next one have passed when it is committed
    assert steps_until_due() == 81


def test_no_step_is_begun_that_would_cost_more_than_a_loss_may(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, every = Clock(monkeypatch), Every(steps=1000, max_loss=60.0)
    found = Saving(Progress())
    found.begin(None)
    found.begun()
    found.succeeded(Saved(1, "memory://store/manifests/x.json", 1 << 30, 10.0, ""), 0.0)
    for step in range(1, 5):
        clock.now += 10.0
        assert not found.due(step, every)  # 40 s old at most, ten more for a save: the next step ends at 50
    clock.now += 10.0
    assert found.due(5, every)


def test_what_cannot_be_kept_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = Saving(Progress())
    found.due(1, Every(steps=1000, max_loss=60.0))
    for _ in range(3):
        found.succeeded(Saved(1, "memory://store/manifests/x.json", 1 << 30, 50.0, ""), 0.0)
    assert capsys.readouterr().err.count("maxLoss (60 s) cannot be kept") == 1


def test_a_skipped_save_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a save that had no memory gives maxLoss, or an interval, all of its time once more."""
    clock = Clock(monkeypatch)
    for every in (Every(steps=1000, max_loss=60.0), Every(seconds=30.0), Every(auto=True, between_losses=600.0)):
        found = Saving(Progress())
        found.begin(None)
        clock.now += 200.0
        assert found.due(1, every)
        for step in range(2, 5):
            found.skipped()
            clock.now += 1.0
            assert found.due(step, every)
        found.begun()
        clock.now += 1.0
        assert not found.due(5, every)


def test_skipped_saves_are_said_once_in_a_row_and_shown_if_they_stay_stuck(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    progress = Progress()
    found = Saving(progress)
    found.due(1, Every(steps=1))
    for row in (1, 2):
        for _ in range(3):
            found.skipped()
        assert progress.save_error is None, "that two overlap is no error"
        clock.now += STUCK_SECONDS
        found.skipped()
        assert progress.save_error is not None
        assert progress.save_error.startswith("SaveSkipped: a save is due, but those before it are on their way")
        assert progress.save_error.endswith("another copy of its state")
        found.begun()
        assert progress.save_error is not None
        found.succeeded(Saved(1, "memory://store/manifests/x.json", 1 << 30, 1.0, ""), 0.0)
        assert progress.save_error is None
        assert capsys.readouterr().err.count("no memory for one more") == 1, row
    other = Saving(Progress())
    other.skipped()  # on a rank that is never asked what is due: rank 0 says it for all
    assert capsys.readouterr().err == ""


def test_what_is_said_holds_no_secrets() -> None:
    progress = Progress()
    keys = Credentials("AKIAKEY", "the+secret", "the-token")
    Saving(progress, keys).failed(StorageDeniedError("AKIAKEY, the+secret and the-token are refused"))
    assert progress.save_error == "StorageDenied: ..., ... and ... are refused"


def test_line() -> None:
    assert one_line("a\n b\x1b[0m\t c") == "a b [0m c"
    assert one_line("at https://user:pass@host/bucket") == "at https://host/bucket"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 197 + "..."
