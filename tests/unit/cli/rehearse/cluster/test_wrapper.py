"""The text that runs in a pod: what it changes for a program, and when it kills it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.waiting import wait_for

from holdfast_cli.rehearse import save_watch
from holdfast_cli.rehearse.cluster.script import TEXT, wrapping
from holdfast_cli.rehearse.cluster.wrapper import IN_SAVE, KILLED, NO_SAVE, Killer, commit_of, kill, step_of
from holdfast_protocol import variables
from holdfast_train.folder.look import OWN
from holdfast_train.folder.note import Note
from holdfast_train.format.names import CheckpointName

NOW = {"seconds": 0, "saves": 0, "step": 2**53, "pause": 0, "inSave": False, "patience": 0}
SLEEP = [sys.executable, "-c", "import time; print('on', flush=True); time.sleep(60)"]
MOST_CHARACTERS = 4096  # of one argument, in the API


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that end with the test."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.communicate()


def python(command: list[str]) -> list[str]:
    """The command with this Python: the first one in PATH may be a shell script that changes the environment."""
    assert command[0] == "python3"
    return [sys.executable, *command[1:]]


def start(
    started: list["subprocess.Popen[str]"], folder: Path | str, attempts: dict[int, Any], *command: str, **more: str
) -> "subprocess.Popen[str]":
    """The wrapper with this command, as attempt 1."""
    environment = {**os.environ, "HOLDFAST_ATTEMPT": "1", **more}
    wrapped = [*python(wrapping(str(folder), attempts)), *command]
    process = subprocess.Popen(
        wrapped, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started.append(process)
    return process


def note(folder: Path, *commits: str) -> None:
    """What a writer notes in the folder: at which commit it is."""
    new = folder / ".holdfast-new"
    new.write_text(json.dumps({"commits": commits}))
    new.replace(folder / ".holdfast-folder.json")


def said(process: "subprocess.Popen[str]") -> str:
    """How a program was killed, as the process beside it says."""
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    return errors.strip()


def test_the_text_fits_into_a_manifest() -> None:
    command = wrapping("/outputs", {1: NOW, 4: NOW})
    assert all(len(one) <= MOST_CHARACTERS for one in command)
    assert "$" not in "".join(command)  # Kubernetes would expand it
    assert len(command) < 64


# Breaks if the text needs a newer Python than an image must have: parsing follows the grammar of that version.
def test_the_text_is_of_python_3_9() -> None:
    import ast

    ast.parse(TEXT, feature_version=(3, 9))
    assert "holdfast_cli" not in TEXT


# Breaks if the program finds anything else than without the wrapper.
def test_the_program_finds_all_as_it_would_be(
    started: list["subprocess.Popen[str]"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = (
        "import json, os, signal, sys\n"
        "status = open('/proc/self/status').read()\n"
        "mask = [line for line in status.splitlines() if line.startswith(('SigBlk', 'SigIgn', 'SigCgt'))]\n"
        "print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), os.getpgrp() == os.getpgid(os.getppid()), mask,"
        " sorted(os.listdir('/proc/self/fd')), sys.stdin.read()]))\n"
    )
    for shadowing in ("json", "signal", "time"):
        (tmp_path / f"{shadowing}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-P", "-c", look, "a b", "", "$HOME"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOLDFAST_ATTEMPT": "1",
        "PYTHONPATH": str(tmp_path / "none"),
        "EMPTY": "",
    }
    plain, wrapped = (
        subprocess.run(one, env=environment, input="said", capture_output=True, text=True, check=True).stdout
        for one in (command, [*python(wrapping("", {1: NOW | {"seconds": 50}})), *command])
    )
    assert json.loads(wrapped) == json.loads(plain)
    assert json.loads(plain)[-1] == "said"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -USR1 $$"], -signal.SIGUSR1),
        (["/no/such/program"], 127),
        (["/"], 126),
    ],
    ids=["code", "signal", "missing", "folder"],
)
def test_the_exit_status_is_that_of_the_program(
    started: list["subprocess.Popen[str]"], command: list[str], code: int
) -> None:
    assert start(started, "", {}, *command).wait(timeout=20) == code


# Breaks if a program gets a signal twice, or not at all.
def test_a_signal_reaches_the_program_once(started: list["subprocess.Popen[str]"]) -> None:
    count = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: got.append(1))\n"
        "print('on', flush=True)\n"
        "end = time.monotonic() + 60\n"
        "while not got and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "sys.exit(len(got) + 10)\n"
    )
    process = start(started, "", {1: NOW | {"seconds": 50}}, sys.executable, "-c", count)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 11


@pytest.mark.parametrize(("attempt", "rank"), [("2", "0"), ("1", "1")])
def test_only_the_planned_attempt_is_killed_on_its_first_node(
    started: list["subprocess.Popen[str]"], attempt: str, rank: str
) -> None:
    command = (sys.executable, "-c", "import time; time.sleep(1)")
    process = start(started, "", {1: NOW}, *command, HOLDFAST_ATTEMPT=attempt, HOLDFAST_RANK=rank)
    assert process.wait(timeout=20) == 0


# Breaks if a process that the program has started outlives it, or if the pipe of its output stays open.
def test_all_that_the_program_has_started_is_killed(started: list["subprocess.Popen[str]"]) -> None:
    process = start(started, "", {1: NOW | {"seconds": 0.5}}, "sh", "-c", "sleep 61 & (sleep 62; :) & wait; echo over")
    below = wait_for(
        lambda: len(found := psutil.Process(process.pid).children(recursive=True)) >= 3 and found, 10, "its processes"
    )
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output, errors.strip()) == (-signal.SIGKILL, "", KILLED)
    wait_for(lambda: not any(map(_lives, below)), 10, "the end of its processes")  # a signal takes effect a bit later


# Breaks if the killer outlives the program: the pod would wait for it.
def test_nothing_stays_when_the_program_ends_before(started: list["subprocess.Popen[str]"]) -> None:
    process = start(started, "", {1: NOW | {"seconds": 50}}, "true")
    began = time.monotonic()
    assert process.communicate(timeout=20) == ("", "")  # its end of the pipe is closed
    assert time.monotonic() - began < 10


# Breaks if a program is killed before it has a save to go on from.
def test_a_crash_waits_for_a_committed_save(tmp_path: Path) -> None:
    note(tmp_path, "b/manifests/000000000010-a1-x.json")
    killer = Killer(os.getpid(), str(tmp_path), NOW | {"saves": 2})
    assert not killer.is_due()
    note(tmp_path, "b/manifests/000000000010-a1-x.json", "b/manifests/000000000010-a1-y.json")
    assert not killer.is_due()
    note(tmp_path, "b/manifests/000000000010-a1-y.json")  # only a log has grown
    assert not killer.is_due()
    for number in (20, 30):
        (tmp_path / f"{number}.pt").write_bytes(b"state")
        assert not killer.is_due()  # nobody has committed it
        note(tmp_path, f"b/manifests/0000000000{number}-a1-z.json")
        assert killer.is_due() == (number == 30)


def test_a_save_of_the_planned_step_is_enough(tmp_path: Path) -> None:
    killer = Killer(os.getpid(), str(tmp_path), NOW | {"saves": 3, "step": 20})
    (tmp_path / "save.pt").write_bytes(b"state")
    assert not killer.is_due()
    note(tmp_path, "b/manifests/000000000020-a1-z.json")
    assert killer.is_due()


def test_a_program_with_a_committed_save_is_killed(started: list["subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = start(started, tmp_path, {1: NOW | {"saves": 1}}, *SLEEP)
    assert process.stdout is not None
    process.stdout.readline()
    (tmp_path / "save.pt").write_bytes(b"state")
    note(tmp_path, "b/manifests/000000000020-a1-z.json")
    assert said(process) == KILLED


def test_a_crash_in_a_save_comes_with_the_first_sign_of_it(
    started: list["subprocess.Popen[str]"], tmp_path: Path
) -> None:
    saving = (
        "import sys, time\n"
        "time.sleep(1)\n"
        "file = open(sys.argv[1] + '/save.pt', 'wb', buffering=0)\n"
        "file.write(b'half')\n"
        "time.sleep(5)\n"
        "file.write(b'half')\n"
    )
    (tmp_path / "train.log").write_text("a line\n")
    planned = {1: NOW | {"inSave": True, "patience": 30}}
    process = start(started, tmp_path, planned, sys.executable, "-c", saving, str(tmp_path))
    with (tmp_path / "train.log").open("a") as log:
        log.write("another line\n")
    assert said(process) == f"{IN_SAVE}: {tmp_path}/save.pt"
    assert (tmp_path / "save.pt").read_bytes() == b"half"


def test_a_save_that_does_not_begin_is_said(started: list["subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = start(started, tmp_path, {1: NOW | {"inSave": True, "patience": 0.3}}, *SLEEP)
    assert said(process) == NO_SAVE


def test_the_module_is_the_text(started: list["subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = subprocess.Popen(SLEEP, stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert Killer(process.pid, str(tmp_path), NOW).run() == KILLED
    assert process.wait(timeout=20) == -signal.SIGKILL
    kill(process.pid)  # it has ended


def test_what_a_note_says(tmp_path: Path) -> None:
    assert commit_of("") is None
    assert commit_of(str(tmp_path)) is None
    note(tmp_path, "a", "b")
    assert commit_of(str(tmp_path)) is None
    note(tmp_path, "b")
    assert commit_of(str(tmp_path)) == "b"
    (tmp_path / ".holdfast-folder.json").write_text("[]")
    assert commit_of(str(tmp_path)) is None
    assert [step_of(one) for one in (None, "s3://b/manifests/000000000120-a3-x.json", "s3://b/x")] == [0, 120, 0]


# Breaks if a name that the text repeats, because nothing of Holdfast can be imported in a pod, is not the real one.
def test_names_that_the_text_repeats(tmp_path: Path) -> None:
    name = CheckpointName.new(40, 2)
    Note(tmp_path, "s3://runs/job").note_commits((f"s3://runs/job/{name.manifest_key}",))
    found = commit_of(str(tmp_path))
    assert found == f"s3://runs/job/{name.manifest_key}"
    assert step_of(found) == 40
    assert save_watch.OWN == OWN
    assert all(repr(one)[1:-1] in TEXT for one in (variables.ATTEMPT, variables.RANK))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
