"""How the launcher treats the writer of checkpoint.folder. tests/unit/trainer/folder/test_writer.py has the whole."""

import errno
import math
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.folder_writer import FolderWriter
from holdfast_train.pod.launcher.timings import Timings
from holdfast_train.pod.launcher.verdict import End

LOOK = 0.2  # seconds between two looks of a writer's launcher whether a signal came


def test_writer_that_cannot_start(tmp_path: Path) -> None:
    pod = {"folder": str(tmp_path / "outputs"), "HOLDFAST_JOB": ""}
    process = start(tmp_path / "log", "touch", str(tmp_path / "started"), **pod)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], process.returncode) == (
        "misconfigured",
        "FolderWriterNotStarted",
        78,
    )
    assert not (tmp_path / "started").exists()


# Breaks if a pod that has to leave while its checkpoint is put back goes on, or if a file of the program, in the folder
# in which a pod starts, is taken for a module of Python.
def test_signal_before_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "slow" / "holdfast_train"
    (library / "folder").mkdir(parents=True)
    (library / "__init__.py").touch()
    (library / "folder" / "__init__.py").touch()
    up = f"pathlib.Path({str(tmp_path / 'up')!r}).touch()"
    text = f"import pathlib, queue, signal\ndef main():\n    {up}\n    signal.pause()\n"
    (library / "folder" / "writer.py").write_text(text)
    pod = {"folder": str(tmp_path / "outputs"), "PYTHONPATH": str(library.parent)}
    process = start(tmp_path / "log", "touch", str(tmp_path / "started"), **pod)
    wait_for((tmp_path / "up").exists, 30, "the writer to run")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving")
    assert not (tmp_path / "started").exists()


# Breaks if a pod never leaves while its checkpoint is put back, because its node is busy when the signal comes.
def test_a_signal_whose_handler_takes_longer_than_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(["sleep", "600"], stdin=pipe, stdout=pipe, text=True)
    signalled: list[float] = []

    def handle(*_: object) -> None:
        time.sleep(2 * LOOK)
        signalled.append(time.time())

    def given_up() -> End | None:
        if signalled:
            return End(None, signal.SIGTERM, signalled[0])
        signal.setitimer(signal.ITIMER_REAL, LOOK / 4)  # within the next look for a line
        return None

    monkeypatch.setattr(FolderWriter, "_open", lambda *_: process)
    before = signal.signal(signal.SIGALRM, handle)
    too_late = threading.Timer(20, process.kill)
    too_late.start()
    try:
        end = FolderWriter({}, timings=Timings(folder_writer_look=LOOK)).start(None, given_up)
        assert end == End(None, signal.SIGTERM, signalled[0])
    finally:
        too_late.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        process.kill()
        process.wait()


# Breaks if a pod never ends, because a process could not be started, or was killed inside of a line, at a bad moment.
def test_a_writer_that_cannot_be_started_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = """print('{"state": "ready"}', flush=True)"""
    programs = [f"{ready}; print('{{\"sta', end='')", "", f'{ready}; input(); print(\'{{"state": "done"}}\')']
    tried = threading.Event()

    def opened(_: FolderWriter, *arguments: str) -> "subprocess.Popen[str]":
        program = programs.pop(0)
        if not program:
            tried.set()
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)

    monkeypatch.setattr(FolderWriter, "_open", opened)
    writer = FolderWriter({}, timings=Timings(folder_writer_pause=0.01))
    assert writer.start(None, lambda: None) is None
    assert tried.wait(60)
    over = threading.Thread(target=writer.finish, args=(End(0, None, None), lambda: math.inf), daemon=True)
    over.start()
    over.join(60)
    assert not over.is_alive()
    assert not programs
