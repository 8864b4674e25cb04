"""`holdfast rollback` and `holdfast checkpoints pin`, on a folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.trainer import stores
from tests.support.trainer.stores import identity
from typer.testing import CliRunner, Result

from holdfast.api.status import Phase
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.storage.address import Found, OfJob
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import FencedError
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.folder import FolderStorage

STATE = {"objects": {"count": {"step": 1}}}


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def start(folder: FolderStorage, number: int, keep: int = 9) -> Checkpoints:
    made = Checkpoints(folder, identity(number), Keep(keep))
    made.start("Auto")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "job")


@pytest.fixture
def first(folder: FolderStorage) -> Checkpoints:
    """Attempt 1 trains, and has committed the steps 10, 20 and 30."""
    made = start(folder, 1)
    for step in (10, 20, 30):
        stores.save(made, step, STATE, [None])
    return made


def listed(folder: FolderStorage) -> dict[str, str]:
    found = json.loads(holdfast("checkpoints", "list", folder.uri, "-o", "json").output)
    return {c["name"]: c["state"] for c in found["checkpoints"]}


def test_rollback(folder: FolderStorage, first: Checkpoints) -> None:
    """Breaks if the training attempt, or the next one, goes on from what was left behind."""
    result = holdfast("rollback", folder.uri, "--to", "10", "--yes")
    assert result.exit_code == 0, result.output
    assert "left behind: 2 checkpoints, of step 20, 30" in result.output
    assert "attempt 1 may be training: it commits nothing after the rollback" in result.output
    assert "the next attempt continues from step 10" in result.output
    with pytest.raises(FencedError):
        stores.save(first, 40, STATE, [None])
    assert "rolled back to step 10: a person asked for it" in holdfast("checkpoints", "list", folder.uri).output
    second = start(folder, 2)
    found = second.newest()
    assert found is not None
    assert found.manifest.step == 10
    stores.save(second, 20, STATE, [None])
    assert sorted(listed(folder).values()) == ["left", "left", "ok", "ok"]
    assert "20" in holdfast("checkpoints", "show", folder.uri, "20").output
    shown = json.loads(holdfast("checkpoints", "show", folder.uri, "20", "-o", "json").output)
    assert shown["name"] == str(second.log.state.commits[-1].name)  # the one of the present branch


def test_a_dry_run_changes_nothing(folder: FolderStorage, first: Checkpoints) -> None:
    before = folder.keys("log/")
    result = holdfast("rollback", folder.uri, "--to", "10", "--dry-run", "-o", "json")
    assert result.exit_code == 0, result.output
    body = json.loads(result.output)
    assert (body["to"]["step"], [c["step"] for c in body["left"]], body["fencedAttempt"]) == (10, [20, 30], 1)
    assert folder.keys("log/") == before
    assert holdfast("rollback", folder.uri, "--to", "10").exit_code == ExitCode.FAILED  # there is no terminal
    assert folder.keys("log/") == before


def test_rollback_to_the_newest_healthy_one(folder: FolderStorage, first: Checkpoints) -> None:
    result = holdfast("rollback", folder.uri, "--to", "healthy", "--yes")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "100 steps with finite losses" in " ".join(result.output.split())
    name = first.log.state.commits[0].name
    made = records.Commit(0, 130, 1, "2026-01-01T00:00:00+00:00", name, "00", 1, clean=105)
    first.log.commit(replace(made, name=CheckpointName.new(130, 1)), Keep(9))
    assert holdfast("rollback", folder.uri, "--to", "healthy", "--yes").exit_code == 0
    assert start(folder, 2).log.state.commits[-1].step == 30


def test_a_target_that_was_left_is_refused(folder: FolderStorage, first: Checkpoints) -> None:
    assert holdfast("rollback", folder.uri, "--to", "10", "--yes").exit_code == 0
    result = holdfast("rollback", folder.uri, "--to", "30", "--yes")
    assert result.exit_code == ExitCode.FAILED
    assert "an earlier rollback has left it behind" in " ".join(result.output.split())


def as_job(monkeypatch: pytest.MonkeyPatch, folder: FolderStorage, job: OfJob) -> None:
    """`vit-faces` is this job, and its prefix is `folder`."""
    monkeypatch.setattr("holdfast_cli.storage.address.find", lambda _: Found(folder.uri, job=job))


def test_a_job_that_has_ended_has_no_next_attempt(
    folder: FolderStorage, first: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a person waits for a job that has failed, and never starts again."""
    as_job(monkeypatch, folder, OfJob("ns", "job", Phase.FAILED))
    result = holdfast("rollback", "job", "--to", "10", "--yes")
    words = " ".join(result.output.split())
    assert "job is Failed and starts no attempt: a job that is created again under this name continues" in words
    as_job(monkeypatch, folder, OfJob("ns", "job", Phase.SUSPENDED))
    assert "the next attempt continues" in holdfast("rollback", "job", "--to", "10", "--yes").output


# Breaks if a tenant whose job names the prefix of another training lets an administrator change that training.
@pytest.mark.parametrize(
    "command",
    [
        ("rollback", "mine", "--to", "10", "--yes"),
        ("checkpoints", "pin", "mine", "10"),
        ("checkpoints", "unpin", "mine", "10"),
        ("checkpoints", "prune", "mine", "--keep-last", "1", "--yes"),
        ("checkpoints", "verify", "mine", "--take-back"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_prefix_of_another_job_is_not_changed(
    command: tuple[str, ...], folder: FolderStorage, first: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.hand_over()
    before = folder.keys("log/"), folder.keys("data/")
    as_job(monkeypatch, folder, OfJob("other", "mine", Phase.RUNNING))
    result = holdfast(*command)
    assert result.exit_code == ExitCode.FAILED
    assert "which is the prefix of other/mine, belongs to ns/job" in " ".join(result.output.split())
    assert (folder.keys("log/"), folder.keys("data/")) == before


def test_pin_and_unpin(folder: FolderStorage) -> None:
    training = start(folder, 1, keep=1)
    stores.save(training, 10, STATE, [None])
    result = holdfast("checkpoints", "pin", folder.uri, "10")
    assert result.exit_code == 0, result.output
    assert "pinned: 000000000010-a1-" in result.output
    assert "it was pinned before" in holdfast("checkpoints", "pin", folder.uri, "10").output
    stores.save(training, 20, STATE, [None])
    assert "ok, pinned" in holdfast("checkpoints", "list", folder.uri).output
    stores.save(training, 30, STATE, [None])
    assert [c.step for c in training.log.state.commits] == [10, 30]
    assert holdfast("checkpoints", "unpin", folder.uri, "10").exit_code == 0
    stores.save(training, 40, STATE, [None])
    assert [c.step for c in training.log.state.commits] == [40]
    assert holdfast("checkpoints", "pin", folder.uri, "10").exit_code == ExitCode.NOT_FOUND
