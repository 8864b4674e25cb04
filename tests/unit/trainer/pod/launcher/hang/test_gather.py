"""What the launcher learns of ranks that hang, from real processes that go on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_train.pod.launcher.hang.blame import place, words
from holdfast_train.pod.launcher.hang.gather import END_SIGNAL, _read, gather, look
from holdfast_train.pod.launcher.process_tree import state_of
from holdfast_train.pod.launcher.timings import Timings

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

WAITS = """
import sys, threading
from pathlib import Path
from holdfast_train.pod.rank_evidence import answer_launcher
folder, rank = sys.argv[1:]
if rank != "2":
    answer_launcher(folder, int(rank))
def wait_for_data():
    threading.Event().wait()
threading.Thread(target=wait_for_data, daemon=True).start()
Path(folder, f"ready-{rank}").touch()
wait_for_data()
"""

# Threads that run Python all the time, while the main thread waits in native code without the interpreter lock.
BUSY = """
import json, sys, threading, time
from pathlib import Path
from holdfast_train.pod.rank_evidence import answer_launcher
answer_launcher(sys.argv[1], 0)
def deep(depth):
    return deep(depth - 1) if depth else json.dumps([1])
def busy():
    while True:
        deep(300)
def start_threads():
    while True:
        one = threading.Thread(target=deep, args=(300,))
        one.start()
        one.join()
for target in (busy, busy, start_threads):
    threading.Thread(target=target, daemon=True).start()
Path(sys.argv[1], "ready").touch()
time.sleep(600)
"""
# The C function `sleep` keeps the interpreter lock, as an extension does that waits for a lock of its own.
KEEPS_LOCK = """
import ctypes, sys
from pathlib import Path
from holdfast_train.pod.rank_evidence import answer_launcher
answer_launcher(sys.argv[1], 0)
Path(sys.argv[1], "ready").touch()
while True:
    ctypes.PyDLL(None).sleep(600)
"""
# A program that writes what it likes beside the verdicts.
HOSTILE = """
import os, sys
from pathlib import Path
folder = Path(sys.argv[1])
os.mkfifo(folder / "ask-0")
(folder / "stacks-0").write_text("x")
pipe = os.open(folder / "ask-0", os.O_RDWR)
(folder / "ready").touch()
while os.read(pipe, 1):
    (folder / "new").write_text('{"a": 3, "b": {"number": "4"}, "c": {}, "gloo 0": {"number": 5}}')
    (folder / "new").rename(folder / "collectives-0.json")
"""


@contextlib.contextmanager
def rank_of(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of rank 0 that has begun."""
    path = folder / "train.py"
    path.write_text(program)
    process = subprocess.Popen([sys.executable, str(path), str(folder)])
    try:
        wait_for((folder / "ready").exists, 120, "the rank")
        yield process
    finally:
        process.kill()
        process.wait()


def running(process: "subprocess.Popen[bytes]", rank: int = 0) -> RankVerdict:
    return RankVerdict(rank, "running", "", "", None, None, 0.0, process.pid)


def is_stopped(pid: int) -> bool:
    found = state_of(pid)
    return found is not None and found.letter == "T"


def test_each_rank_says_what_its_threads_do(tmp_path: Path) -> None:
    """Breaks if a rank writes nothing because it is stopped, or ends because its older library has no handler."""
    program = tmp_path / "train.py"
    program.write_text(WAITS)
    ranks = [subprocess.Popen([sys.executable, str(program), str(tmp_path), str(number)]) for number in range(3)]
    try:
        wait_for(lambda: all((tmp_path / f"ready-{number}").exists() for number in range(3)), 120, "the ranks")
        os.kill(ranks[1].pid, signal.SIGSTOP)
        wait_for(lambda: is_stopped(ranks[1].pid), 60, "a rank that is stopped")
        verdicts = [running(one, number) for number, one in enumerate(ranks)]
        looked = look(str(tmp_path), verdicts, {})
        assert not is_stopped(ranks[0].pid), "it goes on"
        assert [one["stacks"] != "" for one in looked] == [True, False, False]
        waits, stopped, silent = gather(str(tmp_path), verdicts, {0: 5, 1: 4})
        assert ranks[1].wait(60) == -END_SIGNAL, "it must not train on"
        wait_for(lambda: is_stopped(ranks[0].pid) and is_stopped(ranks[2].pid), 60, "ranks that are stopped")
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    for found in (waits, stopped):
        assert found["stacks"].count("in wait_for_data") == 2
        assert place(found["stacks"]).startswith("wait_for_data (train.py, line ")
    assert [waits["state"], stopped["state"], silent["stacks"]] == ["S", "T", ""]
    assert [waits["step"], stopped["step"], silent["step"]] == [5, 4, None]
    assert (tmp_path / "collectives-0.json").read_text() == "{}", "there is no torch"


@pytest.mark.parametrize("questions", [10, pytest.param(100, marks=pytest.mark.thorough)])
def test_a_rank_whose_threads_run_survives_each_question(tmp_path: Path, questions: int) -> None:
    """Breaks if its stacks are read while another thread changes them: the training would end of a question."""
    with rank_of(BUSY, tmp_path) as process:
        for _ in range(questions):
            (found,) = look(str(tmp_path), [running(process)], {})
            assert "in start_threads" in found["stacks"]
            assert place(found["stacks"]).startswith("<module> (train.py, line ")
            assert process.poll() is None


def test_a_rank_that_keeps_the_interpreter_lock_says_where(tmp_path: Path) -> None:
    """Breaks if only a thread of the rank can answer: there is none that runs."""
    with rank_of(KEEPS_LOCK, tmp_path) as process:
        wait_for(lambda: (found := state_of(process.pid)) is not None and found.letter == "S", 60, "its sleep")
        (found,) = look(str(tmp_path), [running(process)], {}, timings=Timings(rank_answer=0.2))
        assert place(found["stacks"]).startswith("<module> (train.py, line ")
        assert process.poll() is None


# Breaks if a program can keep its launcher from ending it, by an answer that has no numbers.
def test_an_answer_in_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_train.pod.launcher.hang.gather._signal_main_thread", lambda *_: None)
    with rank_of(HOSTILE, tmp_path) as process:
        (found,) = look(str(tmp_path), [running(process)], {}, timings=Timings(rank_stacks=0.0))
    assert found["collectives"] == {"gloo 0": {"number": 5}}
    assert words([found]) == ""


# Breaks if a job with thousands of process groups, or a rank that tells nonsense, makes evidence without a bound.
def test_collectives_are_bounded(tmp_path: Path) -> None:
    told = tmp_path / "collectives-0.json"
    last = [{"sizes": [1] * 50}] * 8
    groups = {f"gloo {number}": {"name": "x", "number": number, "last": last} for number in range(9)}
    told.write_text(json.dumps(groups))
    assert _read(told, 1 << 20) == groups
    assert _read(told, 1000) == {group: {**one, "last": []} for group, one in groups.items()}
    assert _read(told, 100) == {}
    for nonsense in ("[]", "5", '{"gloo 0": 5}', '{"gloo 0": {"number": "7"}, "x": [], "y": {}}', "{", "[" * 10**5):
        told.write_text(nonsense)
        assert _read(told, 10**6) == {}, "or the thread that looks for hangs ends"
