"""Keys that are rotated during a training: a real S3 server with users, launcher, trainer and writer as processes."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.http.s3_server import S3Server
from tests.support.trainer.pods import Pod
from tests.support.trainer.secret_files import SecretFiles
from tests.support.trainer.stores import stub_command, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every
from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageDeniedError
from holdfast_train.storage.s3 import S3Storage

PREFIX = "jobs/rotated"
FIRST, SECOND = ("first", "first-secret"), ("second", "second-secret")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    """A server with the user `first`."""
    found = S3Server(tmp_path / "s3", tmp_path / "iam")
    for folder in ("s3/runs", "iam"):
        (tmp_path / folder).mkdir(parents=True)
    found.start()
    add_user(found, *FIRST)
    yield found
    found.kill()


@pytest.fixture
def files(tmp_path: Path) -> SecretFiles:
    made = SecretFiles(tmp_path / "keys")
    made.put(*FIRST)
    return made


def add_user(server: S3Server, key: str, secret: str) -> None:
    server.admin("create-user", "--access", key, "--secret", secret, "--role", "admin")


def replace_first_user(server: S3Server) -> None:
    add_user(server, *SECOND)
    server.admin("delete-user", "--access", FIRST[0])


def keyless_variables(server: S3Server, files: SecretFiles) -> dict[str, str]:
    """Of a pod whose keys are in files alone."""
    place = {name: value for name, value in server.variables.items() if "KEY" not in name}
    return variables(f"s3://{server.bucket}/{PREFIX}", every=Every(20), keys_folder=str(files.folder), **place)


def training(folder: Path, server: S3Server, files: SecretFiles) -> Pod:
    return Pod(folder, stub_command("--steps=1000000", "--step-seconds=0.01"), **keyless_variables(server, files))


def kinds(server: S3Server) -> list[str]:
    """The records of the log."""
    log = server.folder / server.bucket / PREFIX / "log"
    return [json.loads(path.read_text())["kind"] for path in sorted(log.iterdir())]


def wait_for_more_saves(pod: Pod) -> None:
    before = pod.output.count("saved step")
    wait_for(lambda: pod.output.count("saved step") >= before + 2, 60, f"two more saves, after {pod.output[-500:]}")


def storage(server: S3Server, files: SecretFiles) -> S3Storage:
    keys = Credentials(folder=str(files.folder))
    return S3Storage(server.bucket, PREFIX, replace(server.reached, credentials=keys))


def test_a_training_goes_on_with_the_new_keys(tmp_path: Path, server: S3Server, files: SecretFiles) -> None:
    """Breaks if the trainer or its writer keeps the keys with which it began."""
    init = Pod(
        tmp_path, [sys.executable, "-m", "holdfast_train.pod.init_container"], **keyless_variables(server, files)
    )
    assert init.process.wait(60) == 0, init.output
    pod = training(tmp_path, server, files)
    pod.wait_for("saved step 40")
    add_user(server, *SECOND)
    files.put(*SECOND)
    server.admin("delete-user", "--access", FIRST[0])
    wait_for_more_saves(pod)
    pod.terminate()
    assert pod.end()["reason"] == "SavedAndLeft", pod.output
    assert "could not be saved" not in pod.output  # the writer
    assert kinds(server)[-1] == "handover"  # the trainer


def test_saves_that_are_denied_go_on_when_the_files_change(
    tmp_path: Path, server: S3Server, files: SecretFiles
) -> None:
    """Breaks if a training whose keys ended before the files changed never saves again."""
    pod = training(tmp_path, server, files)
    pod.wait_for("saved step 40")
    replace_first_user(server)
    pod.wait_for("could not be saved")
    pod.wait_for("InvalidAccessKeyId")
    files.put(*SECOND)
    wait_for_more_saves(pod)
    pod.terminate()
    verdict = pod.end()
    assert (verdict["reason"], verdict["savedStep"]) == ("SavedAndLeft", verdict["step"])


def test_no_request_of_many_threads_fails_at_a_change(server: S3Server, files: SecretFiles) -> None:
    found = storage(server, files)
    keys = [f"data/{number}" for number in range(64)]

    def write(key: str) -> None:
        if key == keys[20]:
            add_user(server, *SECOND)
            files.put(*SECOND)
            server.admin("delete-user", "--access", FIRST[0])
        found.write(key, memoryview(key.encode() * 1000))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, keys))
    assert found.keys("data/") == sorted(keys)


def test_keys_that_were_never_right_are_for_a_person(server: S3Server, files: SecretFiles) -> None:
    files.put("first", "wrong")
    with pytest.raises(StorageDeniedError, match="SignatureDoesNotMatch"):
        storage(server, files).get("x")
