"""When a save is due, and what is said of one that has failed."""

import pytest

from holdfast_train import saving
from holdfast_train.environment import Credentials, Every
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.reporter import Progress
from holdfast_train.saving import Saving, one_line


def test_failed_save_is_due_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Saving(Progress())
    assert not found.due(7, Every(steps=5))
    found.failed(StorageUnreachableError("down"))
    assert not found.due(10, Every(steps=5))  # not at once either: training would wait for it at every step
    monkeypatch.setattr(saving, "RETRY_SECONDS", 0.0)
    found.failed(StorageUnreachableError("down"))
    assert found.due(11, Every(steps=5))


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
