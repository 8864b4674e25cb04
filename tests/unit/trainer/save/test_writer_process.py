"""The process of a writer: how it starts, and the proof of its end."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import environment

from holdfast_train.errors import WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save import writer_process
from holdfast_train.save.arena import Arena
from holdfast_train.save.channel import ClosedError
from holdfast_train.save.in_flight_lock import InFlightLock
from holdfast_train.save.messages import Finished, MapArena, Open, Save
from holdfast_train.save.plan import Plan
from holdfast_train.save.writer_process import WriterProcess, start_writer


@pytest.mark.parametrize("found_by", ["the working directory", "the program's path"])
def test_modules_of_the_program_do_not_hide_those_of_python(
    found_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a `queue.py` beside a program ends its writer."""
    (tmp_path / "queue.py").write_text("raise SystemExit('a module of the program')")
    monkeypatch.chdir(tmp_path)
    if found_by == "the program's path":
        monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert answers(start_writer(InFlightLock.new(None)), tmp_path)


def test_a_writer_finds_what_only_the_program_s_path_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a program that adds the library to `sys.path` itself gets a writer without the library."""
    (tmp_path / "holdfast_elsewhere.py").write_text("def main(arguments): open('ran', 'w').close()")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(writer_process, "_MODULE", "holdfast_elsewhere")
    monkeypatch.chdir(tmp_path)
    writer = start_writer(InFlightLock.new(None))
    with pytest.raises(ClosedError):
        writer.channel.receive()
    assert (tmp_path / "ran").exists()
    writer.end()


def answers(writer: WriterProcess, folder: Path) -> bool:
    """True if the writer finishes a save."""
    where = environment(f"file://{folder}/prefix")
    writer.channel.send(Open(where, 1, 2, None))
    name, plan = CheckpointName(1, 1, "0123456789ab"), Plan(1, 2, (), 0, 0, (), ())
    arena = Arena(0)
    writer.channel.send(MapArena(0, 0), [arena.descriptor])
    writer.channel.send(Save(name, 1, 0, plan, None, None, {}, {}, {}, 0.0, 0.0, 0.0))
    writer.channel.finish()
    try:
        assert writer.channel.receive()[0] == Finished(name, None)
    except ClosedError:
        return False
    finally:
        writer.end()
        arena.close()
    return True


def test_its_end_is_certain() -> None:
    """Breaks if a writer counts as ended when its channel is closed: it could still read an arena."""
    started: list[Any] = []
    popen = writer_process.subprocess.Popen

    class Remembered(popen):  # type: ignore[type-arg, misc, valid-type]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            started.append(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer_process.subprocess, "Popen", Remembered)
        writer = start_writer(InFlightLock.new(None))
    (process,) = started
    assert process.poll() is None
    writer.end()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)  # it is reaped too
    with pytest.raises(ClosedError):
        writer.channel.receive()


def test_a_writer_that_cannot_be_started_is_a_writer_lost_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", no_room)
    with pytest.raises(WriterLostError, match="cannot be started"):
        start_writer(InFlightLock.new(None))


def test_a_process_that_the_program_forks_does_not_keep_a_channel_open() -> None:
    """Breaks if a data-loader worker hides from the writer that its trainer has ended, or the other way round."""
    ours, theirs = socket.socketpair()
    writer_process._ends.add(ours)
    if (child := os.fork()) == 0:
        os._exit(0 if ours.fileno() == -1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ours.close()
    assert theirs.recv(1) == b""
    theirs.close()
