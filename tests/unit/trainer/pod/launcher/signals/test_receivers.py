"""A signal reaches the trainer, wherever it is below the launcher, and nothing else."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.support.trainer.launched import SAVES, start, start_behind, verdict_of
from tests.support.waiting import wait_for

TRAINER = '"$PYTHON" "$HERE/train.py" "$HERE/up"'
SHELLS = {
    "a command after it": "%s; echo went on",
    "a pipe": "%s | cat; echo went on",
    "a shell in a shell": "bash -c '%s; echo went on'; echo went on",
    "a shell that cleans up": "trap 'echo cleaned up' EXIT; %s; echo went on",
    "a wrapper without signals": 'python3 -c \'import subprocess; subprocess.call(""" %s """, shell=True)\'',
}


def test_sigterm_is_forwarded_once_and_to_the_program_only(tmp_path: Path) -> None:
    """A kubelet signals PID 1 only; a grandchild that ends would break the save. Two signals at once count once."""
    code = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"])
signal.pthread_sigmask(signal.SIG_BLOCK, {15, 10})  # what comes waits, wherever the program is
print("up", flush=True)
signal.sigwait({15})
print("told", flush=True)
signal.sigwait({10})
print("again" if 15 in signal.sigpending() else "once", child.poll(), flush=True)
child.kill()
"""
    process = start(tmp_path / "log", sys.executable, "-c", code)
    assert process.stdout is not None
    assert {process.stdout.readline(), process.stdout.readline()} == {"up\n", "ready\n"}
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "told\n"
    process.send_signal(signal.SIGTERM)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGUSR1)
    out, _ = process.communicate(timeout=30)
    assert out == "once None\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_sigterm_reaches_a_trainer_behind_a_shell_and_waits_for_its_save(tmp_path: Path, shell: str) -> None:
    """Breaks if the end of the shell ends the container: its trainer would be killed before it has saved."""
    up = tmp_path / "up"
    (tmp_path / "train.py").write_text(SAVES)
    process = start_behind(tmp_path / "log", SHELLS[shell] % TRAINER)
    wait_for(up.exists, 30, "a trainer that handles SIGTERM")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    seen = process.stdout.readline()
    if seen == "cleaned up\n":
        seen = process.stdout.readline()
    assert seen == "saving\n"
    assert process.poll() is None
    out, _ = process.communicate("\n", timeout=30)
    assert out == "saved\n"  # and nothing of the shell after it
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


def test_a_shell_without_a_trainer_that_saves_ends_at_once(tmp_path: Path) -> None:
    """Breaks if the launcher waits out the grace for a program that SIGTERM has not reached or that ignores it."""
    up = tmp_path / "up"
    process = start_behind(tmp_path / "log", 'touch "$HERE/up"; sleep 3600 | cat; echo went on')
    wait_for(up.exists, 30, "a shell")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert verdict_of(tmp_path / "log")["reason"] == "LeftWithoutSaving"
