"""The launcher: a wrong verdict turns a preemption into a failure, or unfinished training into completion."""

import ast
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

from holdfast_train.pod import launcher
from holdfast_train.pod.launcher import End, RankVerdict, classify, encode


def rank(result: str, *, number: int = 0, reason: str = "", at: float = 50.0, saved: int | None = None) -> RankVerdict:
    return RankVerdict(number, result, reason, f"{result} by {number}", 120, saved, at)


def end(
    code: int | None = 0,
    number: int | None = None,
    told: float | None = None,
    ranks: tuple[RankVerdict, ...] = (),
    lines: tuple[str, ...] = (),
) -> End:
    return End(code, number, told, ranks, lines)


CLASSES = [
    # Without the library: exit code, signal and whether the launcher got SIGTERM.
    (end(0), "completed", "Completed"),
    (end(0, told=10.0), "drained", "LeftWithoutSaving"),
    (end(1, told=10.0), "drained", "LeftWithoutSaving"),
    (end(143, told=10.0), "drained", "LeftWithoutSaving"),
    (end(None, 15, told=10.0), "drained", "LeftWithoutSaving"),
    (end(1), "failed", "UserException"),
    (end(None, 9), "failed", "Signal9"),
    (end(None, 11), "failed", "Signal11"),
    (end(1, lines=("torch.OutOfMemoryError: CUDA out of memory.",)), "failed", "OutOfMemory"),
    (end(1, lines=("MemoryError",)), "failed", "OutOfMemory"),
    (end(1, lines=("the user wrote about memory",)), "failed", "UserException"),
    # With it, under torchrun (always 1) and without.
    (end(1, told=10.0, ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    (end(0, ranks=(rank("saved", saved=120),)), "drained", "SavedAndLeft"),
    (end(0, ranks=(rank("left"),)), "drained", "LeftWithoutSaving"),
    (end(1, told=10.0, ranks=(rank("saved", saved=120), rank("failed", number=1))), "drained", "SavedAndLeft"),
    (end(1, ranks=(rank("failed", reason="UserException"),)), "failed", "UserException"),
    (end(1, ranks=(rank("failed", reason="OutOfMemory"),)), "failed", "OutOfMemory"),
    (end(1, ranks=(rank("failed", reason="StorageUnreachable"),)), "failed", "StorageUnreachable"),
    # The exception came first, SIGTERM while torchrun was still clearing up: the user's failure stays one.
    (end(1, told=60.0, ranks=(rank("failed", reason="UserException", at=50.0),)), "failed", "UserException"),
    (end(1, told=40.0, ranks=(rank("failed", reason="UserException", at=50.0),)), "drained", "LeftWithoutSaving"),
    (end(76, ranks=(rank("fenced", reason="Fenced"),)), "fenced", "Fenced"),
    (end(76, told=10.0, ranks=(rank("fenced", reason="Fenced"),)), "fenced", "Fenced"),
    (end(78, ranks=(rank("misconfigured", reason="StorageDenied"),)), "misconfigured", "StorageDenied"),
    (end(0, ranks=(rank("completed", reason="AlreadyComplete"),)), "completed", "AlreadyComplete"),
    # After the end of training the program may export a model: it is complete when that is done.
    (end(0, ranks=(rank("completed", reason="Completed"),)), "completed", "Completed"),
    (end(0, told=10.0, ranks=(rank("completed", reason="Completed"),)), "completed", "Completed"),
    (end(1, ranks=(rank("completed", reason="Completed"),)), "failed", "UserException"),
    (end(None, 9, ranks=(rank("completed", reason="Completed"),)), "failed", "Signal9"),
    (end(1, told=10.0, ranks=(rank("completed", reason="Completed"),)), "drained", "SavedAndLeft"),
    (end(None, 15, told=10.0, ranks=(rank("completed", reason="Completed"),)), "drained", "SavedAndLeft"),
    # A program that catches what ended its Run, or ends inside of it, has not completed its training.
    (end(0, ranks=(rank("failed", reason="StorageUnreachable"),)), "failed", "StorageUnreachable"),
    (end(0, ranks=(rank("failed", reason="UserException"),)), "failed", "UserException"),
    (end(0, ranks=(rank("misconfigured", reason="StorageDenied"),)), "misconfigured", "StorageDenied"),
    (end(0, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "RunNotEnded"),
    (end(0, ranks=(rank("completed"), rank("running", number=1, reason="RunNotEnded"))), "completed", "Completed"),
    (end(3, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "UserException"),
    (end(None, 9, ranks=(rank("running", reason="RunNotEnded"),)), "failed", "Signal9"),
    (end(0, told=10.0, ranks=(rank("running", reason="RunNotEnded", at=5.0),)), "drained", "LeftWithoutSaving"),
    (End(127, None, None, (), (), ("CommandNotFound", "no such program")), "misconfigured", "CommandNotFound"),
]


@pytest.mark.parametrize(("ended", "outcome", "reason"), CLASSES)
def test_classification(ended: End, outcome: str, reason: str) -> None:
    verdict = classify(ended)
    assert (verdict["outcome"], verdict["reason"]) == (outcome, reason)
    assert verdict["message"]


def test_steps_are_the_ranks_newest() -> None:
    verdict = classify(end(0, ranks=(rank("saved", saved=100), rank("saved", number=1, saved=None))))
    assert (verdict["step"], verdict["savedStep"]) == (120, 100)


def test_the_verdict_fits_after_output_of_any_length() -> None:
    lines = tuple("é€🎈" * 100 for _ in range(20))
    data = encode(classify(end(1, lines=lines)) | {"message": "ü" * 100_000})
    assert len(data) <= 4096
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert json.loads(data)["outcome"] == "failed"


@pytest.mark.parametrize(("grace", "seconds"), [(100.0, 90), (30.0, 24), (5.0, 4), (0.5, 1), (3600.0, 3590)])
def test_torchrun_waits_less_than_the_grace(grace: float, seconds: int) -> None:
    assert launcher.shutdown_timeout(grace) == seconds


def test_single_file_of_standard_library_for_python_3_9() -> None:
    """It runs in images that contain nothing else."""
    tree = ast.parse(LAUNCHER.read_text(), feature_version=(3, 9))
    roots = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert roots <= set(sys.stdlib_module_names)
    assert any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)


def start(log: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), "--", *command],
        env={**os.environ, "HOLDFAST_TERMINATION_LOG": str(log), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def verdict_of(log: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(log.read_text())
    return found


def test_failure_shows_last_lines_and_passes_output_on(tmp_path: Path) -> None:
    code = "import sys; print('out'); [print('line', i, file=sys.stderr) for i in range(50)]; raise ValueError('bad')"
    process = start(tmp_path / "log", sys.executable, "-c", code)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == "out\n"
    assert "line 0\n" in err
    verdict = verdict_of(tmp_path / "log")
    assert verdict["outcome"] == "failed"
    lines = verdict["lastLines"]
    assert isinstance(lines, list)
    assert len(lines) == 20
    assert lines[-1] == "ValueError: bad"


def test_command_not_found(tmp_path: Path) -> None:
    process = start(tmp_path / "log", "no-such-program")
    process.communicate(timeout=30)
    assert process.returncode == 127
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"]) == ("misconfigured", "CommandNotFound")
    assert "no-such-program" in str(verdict["message"])


def test_command_that_may_not_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    process = start(tmp_path / "log", str(plain))
    process.communicate(timeout=30)
    assert (process.returncode, verdict_of(tmp_path / "log")["reason"]) == (126, "CommandNotExecutable")


TELLS = """
import signal, sys
signal.signal(15, lambda *a: (print('told', flush=True), sys.exit(%d)))
print('up', flush=True)
while True: signal.pause()
"""


def test_exit_0_after_sigterm_is_drained(tmp_path: Path) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", TELLS % 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


def signal_again(process: subprocess.Popen[str], folder: Path) -> None:
    """Send SIGTERM until it counts as the second: just after the first it does not. Returns at the end."""

    def counts() -> bool:
        process.send_signal(signal.SIGTERM)
        return (folder / "leave-now").exists()

    wait_for(counts, 30, "a launcher that has counted a second SIGTERM")
    process.wait(30)


COUNTS = """
import os, signal
told = []
def on_term(number, _frame):
    told.append(number)
    print("told", os.path.exists(os.environ["HOLDFAST_VERDICT_DIR"] + "/leave-now"), flush=True)
    if len(told) == 2: os._exit(3)
for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, on_term)
print("up", flush=True)
while True: signal.pause()
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_passed_on_as_now(tmp_path: Path, first: signal.Signals) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", COUNTS, HOLDFAST_VERDICT_DIR=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(first)
    assert process.stdout.readline() == "told False\n"
    signal_again(process, tmp_path)
    assert process.stdout.read() == "told True\n"
    assert (process.returncode, verdict_of(tmp_path / "log")["outcome"]) == (3, "drained")


def test_a_program_that_ignores_the_second_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
    env = {"HOLDFAST_VERDICT_DIR": str(tmp_path), "HOLDFAST_GRACE_SECONDS": "3600"}
    process = start(tmp_path / "log", sys.executable, "-c", code, **env)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    signal_again(process, tmp_path)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], verdict["signal"]) == ("drained", "LeftWithoutSaving", 9)


def test_after_a_second_signal_the_wait_for_a_writer_is_short(tmp_path: Path) -> None:
    """Breaks if the launcher waits a minute for a commit after the second SIGTERM."""
    (tmp_path / "leave-now").touch()  # of a launcher before this one
    with (tmp_path / "writer-1").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env = {"HOLDFAST_VERDICT_DIR": str(tmp_path), "HOLDFAST_GRACE_SECONDS": "3600"}
        process = start(tmp_path / "log", sys.executable, "-c", TELLS % 0, **env)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        assert not (tmp_path / "leave-now").exists()
        signal_again(process, tmp_path)
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


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


SAVES = """
import os, pathlib, signal, sys, time
def on_term(number, _frame):
    print("saving", flush=True)
    sys.stdin.readline()
    print("saved", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, on_term)
pathlib.Path(sys.argv[1]).touch()
while True: signal.pause()
"""

SHELLS = {
    "a command after it": "%s; echo went on",
    "a pipe": "%s | cat; echo went on",
    "a shell in a shell": "bash -c '%s; echo went on'; echo went on",
    "a shell that cleans up": "trap 'echo cleaned up' EXIT; %s; echo went on",
    "a wrapper that does not pass signals on": "python3 -c 'import subprocess; subprocess.call(\"%s\", shell=True)'",
}


def start_behind(log: Path, script: str, **variables: str) -> subprocess.Popen[str]:
    """Start the launcher as a reaper of orphans, as PID 1 is one. A line on its stdin ends a program's save."""
    become = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.executable, "
        f"[sys.executable, {str(LAUNCHER)!r}, '--', 'bash', '-c', sys.argv[1]])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", become, script],
        env={**os.environ, "HOLDFAST_TERMINATION_LOG": str(log), "HOLDFAST_GRACE_SECONDS": "3600", **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_sigterm_reaches_a_trainer_behind_a_shell_and_waits_for_its_save(tmp_path: Path, shell: str) -> None:
    """Breaks if the end of the shell ends the container: its trainer would be killed before it has saved."""
    program, up = tmp_path / "train.py", tmp_path / "up"
    program.write_text(SAVES)
    process = start_behind(tmp_path / "log", SHELLS[shell] % f"{sys.executable} {program} {up}")
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


def test_a_second_signal_ends_a_trainer_behind_a_shell(tmp_path: Path) -> None:
    """The save behind the shell does not end: the file says "now", and the program is killed after some seconds."""
    program, up = tmp_path / "train.py", tmp_path / "up"
    program.write_text(SAVES)
    script = f"{sys.executable} {program} {up}; echo went on"
    process = start_behind(tmp_path / "log", script, HOLDFAST_VERDICT_DIR=str(tmp_path))
    wait_for(up.exists, 30, "a trainer that handles SIGTERM")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    signal_again(process, tmp_path)
    assert "saved" not in process.stdout.read()
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


def test_a_shell_without_a_trainer_that_saves_ends_at_once(tmp_path: Path) -> None:
    """Breaks if the launcher waits out the grace for a program that SIGTERM has not reached or that ignores it."""
    up = tmp_path / "up"
    process = start_behind(tmp_path / "log", f"touch {up}; sleep 3600 | cat; echo went on")
    wait_for(up.exists, 30, "a shell")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert verdict_of(tmp_path / "log")["reason"] == "LeftWithoutSaving"


def test_killed_program(tmp_path: Path) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    process.communicate(timeout=30)
    assert process.returncode == 137
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["reason"], verdict["signal"], verdict["exitCode"]) == ("Signal9", 9, None)


def test_program_gets_verdict_folder_and_torchrun_timeout(tmp_path: Path) -> None:
    code = (
        "import os; v = os.environ; "
        "print(os.path.isdir(v['HOLDFAST_VERDICT_DIR']), v['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'])"
    )
    process = start(tmp_path / "log", sys.executable, "-c", code, HOLDFAST_GRACE_SECONDS="100")
    out, _ = process.communicate(timeout=30)
    assert out == "True 90\n"


def test_orphan_that_keeps_the_pipe_open_does_not_keep_the_pod(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '60']); raise SystemExit(3)"
    process = start(tmp_path / "log", sys.executable, "-c", code)
    assert process.wait(timeout=20) == 3
    assert verdict_of(tmp_path / "log")["exitCode"] == 3


def test_no_command(tmp_path: Path) -> None:
    process = start(tmp_path / "log")
    process.communicate(timeout=30)
    assert process.returncode == 127
    assert verdict_of(tmp_path / "log")["reason"] == "CommandNotFound"


def test_rank_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"result": "saved", "step": 5, "savedStep": 5, "at": 1.0}')
    (tmp_path / "rank-1.json").write_text("{")
    (tmp_path / "rank-2.json").write_text('{"step": 1}')
    (tmp_path / "rank-3.123").write_text("half")
    assert [v.rank for v in launcher.read_rank_verdicts(str(tmp_path))] == [0]
