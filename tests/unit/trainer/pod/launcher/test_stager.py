"""How the launcher treats the process that copies trainer.data."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.staging.datasets import FILES, Store, content, wanted
from tests.support.trainer.launched import start, verdict_of
from tests.support.waiting import wait_for

TOLD = '{"rank": 0, "result": "failed", "reason": "StorageUnreachable", "message": "away"}'
FAKE = "import os, pathlib, signal\ndef main():\n"


def pod(folder: Path, **more: Any) -> dict[str, Any]:
    """The variables of a pod that wants the bucket `bucket` in `data`."""
    entry = {"from": f"file://{folder}/bucket", "to": f"{folder}/data", "mount": str(folder)}
    return {"data": wanted(entry), "HOLDFAST_JOB": "", **more}


def run(folder: Path, *command: str, **variables: str) -> tuple[dict[str, object], int]:
    """The verdict and the exit code of a pod whose program is `command`."""
    process = start(folder / "log", *(command or ("touch", str(folder / "started"))), **variables)
    process.communicate(timeout=60)
    return verdict_of(folder / "log"), process.returncode


def fake(folder: Path, text: str) -> dict[str, str]:
    """A library whose process does this instead of copying."""
    package = folder / "fake/holdfast_train/staging"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "process.py").write_text(FAKE + text)
    return {"PYTHONPATH": str(folder / "fake")}


# Breaks if the program starts before its data is there, or cannot read it.
def test_the_program_finds_its_data(tmp_path: Path) -> None:
    Store(tmp_path / "bucket")
    verdict, code = run(tmp_path, "test", "-s", str(tmp_path / "data/labels.csv"), **pod(tmp_path))
    assert (verdict["outcome"], code) == ("completed", 0)
    assert content(tmp_path / "data") == FILES


# Breaks if a file of the program, in the folder in which a pod starts, is taken for a module of Python.
def test_a_program_with_a_file_named_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "bucket")
    for name in ("queue", "random", "hashlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    verdict, code = run(tmp_path, "test", "-s", str(tmp_path / "data/labels.csv"), **pod(tmp_path))
    assert (verdict["outcome"], code) == ("completed", 0)


def test_why_the_data_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    verdict, code = run(tmp_path, **pod(tmp_path))
    assert (verdict["outcome"], verdict["reason"], code) == ("misconfigured", "DataInvalid", 78)
    assert f"trainer.data (from file://{tmp_path}/bucket" in str(verdict["message"])
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("    return 3\n", "misconfigured", "DataStagerNotStarted"),
        ("    os.kill(os.getpid(), signal.SIGKILL)\n", "failed", "Signal9"),
        ("    print('no JSON')\n    return 1\n", "misconfigured", "DataStagerNotStarted"),
        (f"    print('{TOLD}')\n    return 75\n", "failed", "StorageUnreachable"),
    ],
)  # fmt: skip
def test_ends_of_the_process(tmp_path: Path, text: str, outcome: str, reason: str) -> None:
    verdict, _ = run(tmp_path, **pod(tmp_path), **fake(tmp_path, text))
    assert (verdict["outcome"], verdict["reason"]) == (outcome, reason)
    assert not (tmp_path / "started").exists()


# Breaks if a pod that has to leave while its data is copied goes on, or counts as a failure of the program.
def test_a_notice_while_data_is_copied(tmp_path: Path) -> None:
    up = tmp_path / "up"
    slow = fake(tmp_path, f"    pathlib.Path({str(up)!r}).write_text(str(os.getpid()))\n    signal.pause()\n")
    process = start(tmp_path / "log", "touch", str(tmp_path / "started"), **pod(tmp_path), **slow)
    wait_for(lambda: up.exists() and up.read_text(), 30, "the copy to run")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving")
    assert verdict["message"] == "notice to leave while the data was copied; the program had not started"
    assert not (tmp_path / "started").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(up.read_text()), 0)


# Breaks if a copy outlives its launcher, and fills a volume for nobody.
def test_the_copy_ends_with_its_launcher(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (keys / name).write_text("key")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        entry = {"from": "s3://bucket/prefix", "to": f"{tmp_path}/data", "mount": str(tmp_path), "endpoint": url}
        variables = {"data": wanted({**entry, "keys": str(keys)}), "HOLDFAST_JOB": ""}
        process = start(tmp_path / "log", "true", **variables)
        silent.settimeout(30)
        silent.accept()
        copying = psutil.Process(process.pid).children()
        process.kill()
        process.communicate(timeout=60)
        assert len(copying) == 1
        assert psutil.wait_procs(copying, 30)[1] == []


# Breaks if a job of several nodes gets ready without its data.
def test_several_nodes_copy_before_they_are_ready(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    verdict, _ = run(tmp_path, **pod(tmp_path, HOLDFAST_NODES="2"))
    assert verdict["reason"] == "DataInvalid"
