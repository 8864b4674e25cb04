"""On a signal, no other process disturbs the save of a trainer, and each process that waits for it ends after it."""

import json
import signal
from pathlib import Path

import pytest
from tests.support.trainer.launched import SAVES, start_behind, verdict_of
from tests.support.waiting import wait_for

# A trainer with a process beside it that any signal ends, such as a worker of a data loader.
WITH_WORKER = """
import pathlib, signal, subprocess, sys
worker = subprocess.Popen([sys.executable, '-c', 'import signal; print(flush=True); signal.pause()'], stdout=-1)
worker.stdout.readline()
def on_term(number, _frame):
    print('saving', flush=True)
    sys.stdin.readline()
    print('alone' if worker.poll() is not None else 'saved', flush=True)
    worker.kill()
    sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
pathlib.Path(sys.argv[1]).touch()
while True: signal.pause()
"""
# As torchrun: the rank has a session of its own, and all of it gets the signal.
AGENT = """
import os, signal, subprocess, sys
command = [sys.executable, sys.argv[1], sys.argv[2]]
rank = subprocess.Popen(command, start_new_session=True, env={**os.environ, 'TORCHELASTIC_RUN_ID': 'a'})
def on_term(number, _frame):
    print('told', flush=True)
    if rank.poll() is None: os.killpg(rank.pid, number)
    print('ended', rank.wait(), flush=True)
    os._exit(1)
signal.signal(signal.SIGTERM, on_term)
while True: signal.pause()
"""
# As torch.multiprocessing.spawn: a child gets a signal when its parent ends.
SPAWN = """
import ctypes, subprocess, sys
subprocess.call(sys.argv[1:], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9, 0, 0, 0))
print('went on', flush=True)
"""
# As wrappers that capture the output; the trainer prints more than a pipe holds while it saves.
READER = """
import subprocess, sys
for line in subprocess.Popen(sys.argv[1:], stdout=-1).stdout: print(line.decode(), end='', flush=True)
time.sleep(600)
"""
LOUD = SAVES.replace('print("saved"', 'print("x" * 99 + "\\n" * 200_000, end="saved\\n"')
# A training without a handler, and a helper with one that ends after it.
BUSY = """
import pathlib, subprocess, sys, time
code = 'import os, signal; signal.signal(15, print); up = os.getppid(); print(flush=True)\\n'
code += 'import time\\nwhile os.getppid() == up: time.sleep(0.01)'
subprocess.Popen([sys.executable, '-S', '-c', code], stdout=-1).stdout.readline()
while time.process_time() < 1.5: pass
pathlib.Path(sys.argv[1]).touch()
while True: pass
"""


@pytest.fixture
def up(tmp_path: Path) -> Path:
    for name, text in {
        "train": SAVES, "with_worker": WITH_WORKER, "agent": AGENT, "spawn": SPAWN, "reader": READER, "loud": LOUD,
        "busy": BUSY,
    }.items():  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path / "up"


def saved(tmp_path: Path, script: str, **variables: str) -> str:
    """What is printed from the end of the save on, of a script that gets SIGTERM."""
    process = start_behind(tmp_path / "log", script, **variables)
    wait_for((tmp_path / "up").exists, 30, "a trainer")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    out, _ = process.communicate("\n", timeout=60)
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"
    return out


# Breaks if a group gets the signal with its trainer, a parent ends before it, or a command begins after it.
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ('exec timeout 1h "$PYTHON" "$HERE/with_worker.py" "$HERE/up"', "saved\n"),
        ('timeout 1h bash -c \'"$PYTHON" "$HERE/with_worker.py" "$HERE/up"; echo went on\'; echo went on', "saved\n"),
        ('exec "$PYTHON" "$HERE/agent.py" "$HERE/with_worker.py" "$HERE/up"', "saved\ntold\nended 0\n"),
        ('exec "$PYTHON" "$HERE/spawn.py" "$PYTHON" "$HERE/train.py" "$HERE/up"', "saved\n"),
    ],
    ids=["timeout", "shell-in-timeout", "torchrun", "spawn"],
)
def test_a_save_is_not_disturbed(tmp_path: Path, up: Path, script: str, printed: str) -> None:
    assert saved(tmp_path, script) == printed


# Breaks if a wrapper does not read what the trainer prints while it saves, or is not ended after that.
def test_a_wrapper_reads_on(tmp_path: Path, up: Path) -> None:
    found = saved(tmp_path, 'exec "$PYTHON" "$HERE/reader.py" "$PYTHON" "$HERE/loud.py" "$HERE/up"')
    assert found.endswith("saved\n")


# Breaks if ranks that use the library get the signal from two sides.
def test_torchrun_looks_after_ranks_with_the_library(tmp_path: Path, up: Path) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps({"rank": 0, "result": "running"}))
    script = 'exec "$PYTHON" "$HERE/agent.py" "$HERE/train.py" "$HERE/up"'
    process = start_behind(tmp_path / "log", script, HOLDFAST_VERDICT_DIR=str(tmp_path))
    wait_for(up.exists, 30, "a trainer")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate("\n", timeout=60)
    assert out == "told\nsaving\nsaved\nended 0\n"


# Breaks if a rank that does not end takes the time in which a checkpoint is committed.
def test_a_rank_that_does_not_end_is_killed(tmp_path: Path, up: Path) -> None:
    script = 'exec "$PYTHON" "$HERE/agent.py" "$HERE/train.py" "$HERE/up"'
    process = start_behind(tmp_path / "log", script, grace=2)
    wait_for(up.exists, 30, "a trainer")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.read() == "saving\ntold\nended -9\n"
    process.communicate(timeout=60)


# Breaks if a training that takes no notice of SIGTERM is stopped until its helper ends.
def test_a_training_without_a_handler_ends_at_once(tmp_path: Path, up: Path) -> None:
    process = start_behind(tmp_path / "log", 'exec "$PYTHON" "$HERE/busy.py" "$HERE/up"')
    wait_for(up.exists, 60, "a training")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert verdict_of(tmp_path / "log")["signal"] == signal.SIGTERM
