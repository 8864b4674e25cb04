"""checkpoint.folder over real storage: kills at any moment, and an outage."""

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.http.s3_server import S3Server
from tests.support.trainer.folders import QUIET, archive, content, hugging_face, identity, pod
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.folder.index import read_index
from holdfast_train.folder.put_back import put_back
from holdfast_train.folder.snapshot import KEPT
from holdfast_train.storage.base import Storage
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.s3 import S3Storage

KILLS = 6


class Writer:
    """A writer process without a launcher."""

    def __init__(self, root: Path, uri: str, attempt: int, place: Path, **more: Any) -> None:
        self.errors = place / f"stderr-{attempt}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast_train.folder.writer"],
                env=pod(root, uri, attempt, place / "log", **{"folder_quiet": QUIET, **more}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def is_ready(self) -> bool:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return bool(line) and json.loads(line)["state"] == "ready"

    def said(self, text: str) -> bool:
        return text in self.errors.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(params=["s3", "volume"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str], Storage]]:
    if request.param == "volume":
        (tmp_path / "volume").mkdir()
        yield f"file://{tmp_path}/volume/job", {}, FolderStorage(tmp_path / "volume" / "job")
        return
    server: S3Server = request.getfixturevalue("s3")
    prefix = f"folder/{uuid.uuid4().hex}"
    storage = S3Storage(server.bucket, prefix, server.reached)
    yield f"s3://{server.bucket}/{prefix}", server.variables, storage


def put_into(storage: Storage, root: Path) -> None:
    """Put the newest checkpoint of `storage` into the empty folder `root`, as a person who reads it."""
    root.mkdir()
    checkpoints = Checkpoints(storage, identity(99), Keep())
    checkpoints.log.refresh()
    found = checkpoints.newest()
    assert found is not None
    put_back(storage, read_index(storage, found), root)


# Breaks if a kill leaves a checkpoint in the log with wrong bytes, or with files of two moments.
@pytest.mark.thorough
def test_killed_at_any_moment(store: tuple[str, dict[str, str], Storage], tmp_path: Path) -> None:
    uri, variables, storage = store
    chance = random.Random(7)
    moments: list[dict[str, bytes]] = []
    for attempt in range(1, KILLS + 1):
        root = tmp_path / f"outputs-{attempt}"
        writer = Writer(root, uri, attempt, tmp_path, upload_rate=16 << 20, **variables)
        assert writer.is_ready()
        assert attempt == 1 or content(root) in moments, "not what the program had at one moment"
        weights = os.urandom(12 << 20)
        for name in (f"step-{attempt * 10}.pt", "last.pt"):
            archive(root / name, weights)
            moments.append(content(root))
        (root / f"step-{attempt * 10 - 20}.pt").unlink(missing_ok=True)
        moments.append(content(root))
        with (root / "train.log").open("a") as log:
            log.write(f"step {attempt * 10}\n")
        moments.append(content(root))

        def is_time() -> bool:
            is_read = any(root.glob(f"{KEPT}*"))  # noqa: B023
            return writer.said("is saved") or (attempt > 1 and is_read and chance.random() < 0.05)  # noqa: B023

        wait_for(is_time, 60, "a moment", every=0.01)
        writer.kill()
    put_into(storage, tmp_path / "last")
    assert content(tmp_path / "last") in moments


# Breaks if a commit is given up because the storage does not answer, or if nothing is said of it, or of a start
# that waits.
def test_outage(s3: S3Server, tmp_path: Path, endpoint: Endpoint) -> None:
    root, prefix = tmp_path / "outputs", f"folder/{uuid.uuid4().hex}"
    s3.kill()
    writer = Writer(root, f"s3://{s3.bucket}/{prefix}", 1, tmp_path, **s3.variables, **endpoint.variables)
    try:
        endpoint.wait_for(lambda report: report["storageSilence"] is not None, 60)
        s3.start()
        assert writer.is_ready()
        wait_for(lambda: endpoint.reports[-1]["storageSilence"] is None, 60, "the end of the outage")
        s3.kill()
        hugging_face(root, 5)
        wait_for(lambda: writer.said("the folder is not saved: "), 90, "the outage to be noticed")
        wait_for(lambda: endpoint.reports[-1]["storageSilence"] is not None, 60, "a report of it")
        s3.start()
        wait_for(lambda: writer.said("checkpoint-5, of step 5"), 90, "the commit after it")
        wait_for(lambda: endpoint.reports[-1]["storageSilence"] is None, 60, "a report of its end")
    finally:
        writer.kill()
    storage = S3Storage(s3.bucket, prefix, s3.reached)
    log = CommitLog(storage, identity())
    assert [commit.step for commit in log.refresh().commits] == [5]


# Breaks if a checkpoint whose name says no step is saved, and the operator is not told of it.
def test_a_checkpoint_without_a_step_is_reported(tmp_path: Path, endpoint: Endpoint) -> None:
    (tmp_path / "volume").mkdir()
    root = tmp_path / "outputs"
    writer = Writer(root, f"file://{tmp_path}/volume/job", 1, tmp_path, **endpoint.variables)
    try:
        assert writer.is_ready()
        archive(root / "last.pt", b"weights" * 100_000)
        told = endpoint.wait_for(lambda report: report["checkpoint"] is not None, 120)["checkpoint"]
    finally:
        writer.kill()
    assert (told.get("step"), told["bytes"] > 700_000) == (None, True)


# Breaks if a look at very many files takes the time of the program, or a checkpoint with them cannot be saved.
@pytest.mark.thorough
@pytest.mark.timeout(1200)  # a machine under load takes several minutes for so many files
def test_very_many_files(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    (tmp_path / "volume").mkdir()
    writer = Writer(root, f"file://{tmp_path}/volume/job", 1, tmp_path, folder_quiet=2.0)
    try:
        assert writer.is_ready()
        many = root / "many"
        many.mkdir()
        for number in range(100_000):
            (many / str(number)).write_bytes(b"%d" % number)
        hugging_face(root, 5)
        wait_for(lambda: writer.said("the newest save is checkpoint-5"), 900, "the commit")
    finally:
        writer.kill()
    put_into(FolderStorage(tmp_path / "volume" / "job"), tmp_path / "last")
    assert (tmp_path / "last" / "many" / "99999").read_bytes() == b"99999"
