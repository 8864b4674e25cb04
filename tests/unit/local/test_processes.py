"""A process is found again by number, start time and command line, and nothing else is ever ended in its place."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import wait_for

from holdfast_local import processes
from holdfast_local.processes import ProcessRecord, ProcessState

STUBBORN = "import signal,time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"


def record(tmp_path: Path, code: str) -> ProcessRecord:
    return ProcessRecord(name="part", argv=[sys.executable, "-c", code], log=tmp_path / "logs" / "part.log")


def said(found: ProcessRecord, word: str) -> bool:
    return word in processes.log_tail(found, 10)


def test_a_started_process_has_a_session_of_its_own_and_is_found(tmp_path: Path) -> None:
    started = processes.start(record(tmp_path, "import time; time.sleep(600)"))
    try:
        assert processes.state(started) is ProcessState.RUNNING
        assert os.getsid(started.pid) == started.pid
    finally:
        assert processes.end([started], grace=0) == ["part"]
    assert processes.state(started) is ProcessState.DEAD
    assert not psutil.pid_exists(started.pid), "a zombie is left"


def test_a_process_that_has_no_command_line_yet_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Breaks if a part counts as dead in the moment between its exec and its command line, on a busy machine."""
    us = psutil.Process()
    found = ProcessRecord(name="us", log=tmp_path / "log", pid=us.pid, argv=["x", "y"], create_time=us.create_time())
    assert processes.state(found) is ProcessState.DEAD
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: [])
    assert processes.state(found) is ProcessState.RUNNING


def test_another_process_with_the_same_number_is_not_ours(tmp_path: Path) -> None:
    us = psutil.Process()
    base = {"name": "part", "log": tmp_path / "log", "pid": us.pid, "argv": us.cmdline()}
    older = ProcessRecord(create_time=us.create_time() - 60, **base)
    other = ProcessRecord(create_time=us.create_time(), **(base | {"argv": ["etcd", "--name=local"]}))
    for stranger in (older, other):
        assert processes.state(stranger) is ProcessState.DEAD
        assert processes.end([stranger], grace=0) == []
        assert not processes.send(stranger, signal.SIGTERM)


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    started = processes.start(record(tmp_path, STUBBORN))
    wait_for(lambda: said(started, "ready"), 20, "the process to ignore SIGTERM")
    assert processes.end([started], grace=0.1) == ["part"]
    assert processes.state(started) is ProcessState.DEAD


def test_a_paused_process_is_seen_as_paused_and_can_be_ended(tmp_path: Path) -> None:
    started = processes.start(record(tmp_path, "import time; time.sleep(600)"))
    assert processes.send(started, signal.SIGSTOP)
    wait_for(lambda: processes.state(started) is ProcessState.PAUSED, 10, "the process to stop")
    processes.end([started], grace=5)
    assert processes.state(started) is ProcessState.DEAD


def test_the_end_of_the_log_is_kept_for_people(tmp_path: Path) -> None:
    started = processes.start(record(tmp_path, "print('\\n'.join(map(str, range(9)))); raise SystemExit(3)"))
    wait_for(lambda: processes.state(started) is ProcessState.DEAD, 20, "the process to end")
    assert processes.log_tail(started, 2) == ["7", "8"]


def test_a_missing_log_has_no_lines(tmp_path: Path) -> None:
    assert processes.log_tail(record(tmp_path, ""), 5) == []


def test_servers_do_not_get_the_secrets_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("GOGC", "200")
    assert "AWS_SECRET_ACCESS_KEY" not in processes.clean_environment()
    assert processes.clean_environment()["GOGC"] == "200", "the user decides between memory and CPU"
    assert processes.clean_environment({"A": "1"})["A"] == "1"
