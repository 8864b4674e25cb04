"""The history of programs that know nothing of Holdfast: what they report becomes rows, which commits name."""

import json
import math
import os
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, hugging_face, identity

from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.reported import Reported, row_of
from holdfast_train.pod.launcher.progress.noted_progress import FILE, NotedProgress
from holdfast_train.series.history import read_history
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.retrying import RetryingStorage


def status(step: int, **metrics: object) -> dict[str, str]:
    given = {"current_step": step, "total_steps": 100, **metrics}
    return {name: str(value) for name, value in given.items()}


def line(**metrics: object) -> bytes:
    return json.dumps({"at": 5.5, "metrics": status(3, **metrics)}).encode()


class Attempt:
    """One attempt: what its program reports, and what is committed of its folder."""

    def __init__(self, place: Path, number: int, resumed: int | None) -> None:
        self.saved = SavedFolder(place, attempt=number)
        self.store, verdicts = self.saved.storage, place / f"verdicts-{number}"
        verdicts.mkdir()
        self.note = NotedProgress(str(verdicts)).note
        self.reported = Reported(str(verdicts), RetryingStorage(self.store), identity(number))
        self.reported.resumed = resumed
        self.saved.commits = FolderCommits(self.saved.checkpoints, self.store, reported=self.reported)

    def train(self, *steps: int) -> None:
        for step in steps:
            self.note(status(step, loss=1 / step))

    def commit(self, step: int) -> tuple[str, ...]:
        hugging_face(self.saved.root, step)
        self.saved.commit()
        return self.saved.checkpoints.log.state.commits[-1].series


def test_two_attempts_have_one_history_that_tells_lost_from_kept(tmp_path: Path) -> None:
    """Breaks if a row is lost or counted twice, if a commit names no rows, or if lost steps look kept."""
    first = Attempt(tmp_path, 1, 0)
    first.train(1, 2, 3)
    assert len(first.commit(3)) == 1
    first.train(4, 5)
    first.reported.end(20)
    second = Attempt(tmp_path, 2, 3)
    second.train(4, 5, 6)
    assert len(second.commit(6)) == 1
    second.reported.end(20)

    history = read_history(second.store)
    assert history.gaps == []
    assert [
        (part.attempt, [row.step for row in part.kept], [row.step for row in part.lost]) for part in history.parts
    ] == [
        (1, [1, 2, 3], [4, 5]),
        (2, [4, 5, 6], []),
    ]
    assert history.parts[1].rows[0].values == {"loss": 0.25}


@pytest.mark.parametrize(("resumed", "lost"), [(10, [11]), (None, []), (0, [4, 11])])
def test_a_program_that_begins_anew_has_lost_all(tmp_path: Path, resumed: int | None, lost: list[int]) -> None:
    """Breaks if rows look kept of which the next start knows nothing. None: another writer, beside the same program."""
    first = Attempt(tmp_path, 1, 0)
    first.train(4, 11)
    first.reported.end(20)
    second = Attempt(tmp_path, 2, resumed)
    second.train(12)
    second.reported.end(20)
    assert [row.step for row in read_history(second.store).parts[0].lost] == lost


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        ({"loss": 2.5, "learning_rate": "1e-3"}, {"loss": 2.5, "learning_rate": 0.001}),
        ({"train_loss": 2.5, "eval/acc %": 1}, {"loss": 2.5, "eval/acc__": 1.0}),
        ({"loss": "inf"}, {"loss": math.inf}),
        ({"loss": 0, "grad_norm": "inf"}, {"loss": math.inf, "grad_norm": math.inf}),
        ({"loss": "much", "note": "text"}, {}),
        ({}, {}),
        ({f"m{n}": n for n in range(300)}, {f"m{n}": n for n in range(16)}),
    ],
    ids=["figures", "names", "inf", "norm", "texts", "step alone", "many"],
)
def test_the_values_of_a_row(metrics: dict[str, object], wanted: dict[str, float]) -> None:
    row = row_of(line(**metrics))
    assert row is not None
    assert (row.values, row.step, row.at) == (wanted, 3, 5.5)


def test_a_step_without_figures_is_told_and_makes_no_row(tmp_path: Path) -> None:
    """Breaks if the step of a save is not known of a program that prints its steps alone, or if rows are empty."""
    attempt = Attempt(tmp_path, 1, 0)
    attempt.note(status(7))
    attempt.reported.collect()
    attempt.note(status(8))
    assert attempt.reported.told == 7
    assert attempt.commit(8) == ()
    assert attempt.reported.told == 8
    attempt.reported.end(20)
    assert read_history(attempt.store).parts == []


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b'{"at": 1}', b'{"at": "x", "metrics": {}}', b'{"at": 1, "metrics": [1]}',
     b'{"at": 1, "metrics": {"step": "-4", "loss": "1"}}',
     b'{"at": 1, "metrics": {"step": ["4"]}}',
     b'{"at": 1e300, "metrics": {"step": "4", "loss": "1"}}',
     b'{"at": 1, "metrics": {"step": "9999999999999999", "loss": "1"}}',
     b"[" * 100_000, b"\xff\xfe"],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_report_is_no_row(text: bytes) -> None:
    """Breaks if a program that writes into the file ends the process that saves its checkpoints."""
    assert row_of(text) is None


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_something_else_in_place_of_the_file(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Breaks if a program makes the writer read another file, or wait for ever."""
    (tmp_path / "secret").write_bytes(line(loss=7))
    path = tmp_path / FILE
    if kind == "link":
        path.symlink_to(tmp_path / "secret")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    store = FolderStorage(tmp_path / "store")
    reported = Reported(str(tmp_path), RetryingStorage(store), identity())
    reported.collect()
    reported.end(20)
    assert read_history(store).parts == []
    assert kind == "pipe" or "the history of the training is not written" in capfd.readouterr().err
