"""The log of a pod in its storage, with the real launcher and real S3."""

import re
import sys
import uuid
from pathlib import Path

import pytest
from tests.support.http.s3_server import S3Server
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, stub_command, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.environment import Environment
from holdfast_train.pod import kept_logs
from holdfast_train.storage.base import Storage
from holdfast_train.storage.opening import open_retrying

LOGS = Keep(logs=True)
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


@pytest.fixture
def prefix(s3: S3Server) -> str:
    return f"s3://{s3.bucket}/logs/{uuid.uuid4().hex}"


def storage_of(own: dict[str, str]) -> Storage:
    """The storage of a pod with these variables."""
    found = Environment.read(own)
    assert found is not None
    assert found.settings.checkpoint_uri is not None
    return open_retrying(found, found.settings.checkpoint_uri)


def kept_lines(own: dict[str, str]) -> list[str]:
    """The lines of the only log in the storage, without their times."""
    storage = storage_of(own)
    (log,) = kept_logs.kept_logs(storage, "uid-1")
    lines = kept_logs.read(storage, log)[1].splitlines()
    assert all(_STAMP.match(line) for line in lines)
    assert lines == sorted(lines, key=lambda line: line[:30])
    return [_STAMP.sub(b"", line).decode() for line in lines]


def assert_all_of(output: str, kept: list[str]) -> None:
    """In `output`, which is one file, a line of one stream may begin in the middle of one of the other."""
    assert sorted("".join(kept)) == sorted(output.replace("\n", ""))


# Breaks if a line is missing, comes twice or is cut: of the launcher, of the program, or of the writers beside it.
@pytest.mark.parametrize("folder", [False, True])
def test_a_log_is_kept_with_all_its_lines(tmp_path: Path, s3: S3Server, prefix: str, *, folder: bool) -> None:
    program = "import sys; [print(f'out {n}', 'x' * n) for n in range(2000)]; sys.stderr.write('no end of line'); 1 / 0"
    (tmp_path / "outputs").mkdir()
    more = {"folder": str(tmp_path / "outputs")} if folder else {}
    own = variables(prefix, 3, keep=LOGS, **more, **s3.variables)
    pod = Pod(tmp_path, [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", program], **own)
    assert pod.end()["outcome"] == "failed"
    kept = kept_lines(own)
    assert_all_of(pod.output, kept)
    assert [line for line in kept if line.startswith("out ")] == [f"out {n} {'x' * n}" for n in range(2000)]
    assert kept_logs.kept_logs(storage_of(own), "uid-1")[0][1:5] == (3, 0, 1, "pod-3")


# Breaks if the log of a pod is lost that has to leave, or ends by itself: then there is time to keep it.
def test_a_pod_that_leaves_and_one_that_is_killed_keep_their_logs(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    own = variables(prefix, 1, keep=LOGS, **s3.variables)
    pod = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.02"), **own)
    pod.wait_for("step 5 ")
    pod.terminate()
    assert pod.end()["reason"] == "SavedAndLeft"
    assert_all_of(pod.output, kept_lines(own))
    again = variables(prefix, 2, keep=LOGS, **s3.variables)
    killed = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.02"), **again)
    killed.wait_for("step 20 ")
    assert killed.kill_program()["outcome"] == "failed"
    assert [log.attempt for log in kept_logs.kept_logs(storage_of(own), "uid-1")] == [1, 2]


# Breaks if a log is stored against the will of the job, or if a storage that refuses changes how the pod ends.
def test_a_log_is_not_kept_where_it_must_not_or_cannot(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    own = variables(prefix, 1, **s3.variables)
    program = [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", "print('here')"]
    assert Pod(tmp_path, program, **own).end()["outcome"] == "completed"
    assert kept_logs.kept_logs(storage_of(own), "uid-1") == []
    wrong = {**s3.variables, "HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": "wrong"}
    refused = Pod(tmp_path, program, **variables(prefix, 1, keep=LOGS, **wrong))
    assert refused.end()["outcome"] == "completed"
    assert "the log of this pod is not kept beside the checkpoints:" in refused.output
    assert "here" in refused.output.splitlines()


# Breaks if what Python prints at its start is taken for the answer of the process that stores, so that a failure is
# silent.
def test_a_failure_is_said_although_python_prints_something(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('welcome')")
    wrong = {**s3.variables, "HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": "wrong", "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", "pass"]
    pod = Pod(tmp_path, program, **variables(prefix, 1, keep=LOGS, **wrong))
    assert pod.end()["outcome"] == "completed"
    assert "the log of this pod is not kept beside the checkpoints:" in pod.output


# Breaks if a log is not bounded, if its newest lines are lost, or if nothing says that older ones were.
def test_the_end_of_a_long_log_is_kept(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    program = "import sys\nfor n in range(300_000): sys.stdout.write(f'{n:070d}\\n')"
    own = variables(prefix, 1, keep=LOGS, **s3.variables)
    pod = Pod(tmp_path, [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", program], **own)
    assert pod.end()["outcome"] == "completed"
    storage = storage_of(own)
    (log,) = kept_logs.kept_logs(storage, "uid-1")
    known, content = kept_logs.read(storage, log)
    assert known["cut"] is True
    assert 15 << 20 < len(content) < 17 << 20
    numbers = [int(line.partition(b" ")[2]) for line in content.splitlines()]
    assert numbers == list(range(numbers[0], 300_000))


# Breaks if a node that is lost without a notice takes the whole log along, although the program ran for long.
def test_a_log_is_kept_while_the_program_runs(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    keeps = """
import os, time
from dataclasses import replace
from holdfast_train.pod.launcher.kept_log import KeptLog
from holdfast_train.pod.launcher.timings import USUAL

with KeptLog(os.environ, replace(USUAL, log_pause=0.2)):
    print("alive", flush=True)
    time.sleep(600)
"""
    own = variables(prefix, 1, keep=LOGS, **s3.variables)
    pod = Pod(tmp_path, [sys.executable, "-c", keeps], **own)
    storage = storage_of(own)
    wait_for(lambda: kept_logs.kept_logs(storage, "uid-1"), 60, lambda: pod.output)
    pod.process.kill()
    pod.process.wait()
    assert kept_lines(own) == ["alive"]
