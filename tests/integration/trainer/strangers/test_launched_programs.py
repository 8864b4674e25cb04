"""Ordinary programs under the launcher: how they start and end, what they print, and what they resume from."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.folders import pod
from tests.support.trainer.launched import start, start_behind, verdict_of
from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

PYTHON = sys.executable
DAEMON = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (0, 1, 2): os.close(number)
time.sleep(600)
"""
WORKERS = """
import multiprocessing, os, tempfile
def work(_): os.chdir(tempfile.gettempdir())
if __name__ == '__main__':
    os.chdir('/')
    with multiprocessing.get_context('spawn').Pool(2) as pool: pool.map(work, range(4))
"""
# A writer of checkpoints that ends long after its program.
WRITER = """
import os, time
from holdfast_train.save.in_flight_lock import InFlightLock
lock, (reading, writing) = InFlightLock.new(os.environ['HOLDFAST_VERDICT_DIR']), os.pipe()
if os.fork():
    os.read(reading, 1)
    os._exit(0)
lock.note_writer()
for number in (0, 1, 2): os.close(number)
os.write(writing, b'.')
time.sleep(600)
"""
# A loop that floods: a line of 100 MB, bytes of no text, colours, UTF-16, a bar without lines, 50,000 lines. It then
# prints how much memory its launcher has had, and closes its output.
FLOOD = r"""
import os, re, sys
out = sys.stdout.buffer
for _ in range(1600): out.write(b'x' * 65536)
out.write(b'\nstep 3/90 loss=3.0\n' + os.urandom(1 << 20) + b'\n')
for step in range(50_000): out.write(b'\rbar %d' % step)
for line in range(50_000): out.write(b'line %d\n' % line)
out.write('step 5/90 loss=2.5\n'.encode('utf-16'))
out.write(b'\n\x1b[32mstep \x1b[1m7\x1b[0m/90 loss=\x1b[31m1.5\x1b[0m\n')
out.flush()
status = open(f'/proc/{os.getppid()}/status').read()
sys.stderr.write('\x1b[2Jpeak ' + re.search(r'VmHWM:\s+(\d+)', status)[1] + '\0\n')
os.close(1)
sys.stderr.flush()
os.close(2)
os._exit(4)
"""
TORCHRUN_INSIDE = """
import subprocess, sys
raise SystemExit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)
"""
SAVES = """
import pathlib, signal, sys
signal.signal(15, lambda *_: (sys.stdin.readline(), pathlib.Path('saved').touch(), sys.exit(0)))
pathlib.Path('up').touch()
while True: signal.pause()
"""
RESUMES = """
import argparse, pathlib, shutil, sys, zipfile
parser = argparse.ArgumentParser()
parser.add_argument('--output', type=pathlib.Path)
parser.add_argument('--resume')
options = parser.parse_args()
print('resumes from', options.resume, flush=True)
with zipfile.ZipFile(options.output / 'last.pth.tar', 'w') as file: file.writestr('data.pkl', 'weights')
shutil.copyfile(options.output / 'last.pth.tar', options.output / 'model_best.pth.tar')
sys.exit(options.resume is None)
"""


def run(log: Path, *command: str, **variables: str) -> tuple[dict[str, Any], str, str]:
    """The verdict on a command that ends by itself, and what it printed."""
    process = start(log, *command, **variables)
    out, err = process.communicate(timeout=60)
    return verdict_of(log), out, err


# Breaks if an exit code is lost that a shell passes on, or one is invented.
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ('exec "$PYTHON" -c "raise SystemExit(3)"', 3),
        ('"$PYTHON" -c "raise SystemExit(5)" & wait $!', 5),
        ('"$PYTHON" -c "raise SystemExit(5)" & wait', 0),  # as a shell is: the docs say so
        ('set -o pipefail; "$PYTHON" -c "raise SystemExit(6)" | tee log', 6),
        ('cd / && "$PYTHON" -c "import os; os.close(1); os.close(2); os._exit(7)"', 7),
    ],
)
def test_shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, code: int) -> None:
    monkeypatch.chdir(tmp_path)
    verdict, _, _ = run(tmp_path / "verdict", "bash", "-c", script, PYTHON=PYTHON)
    assert verdict["exitCode"] == code
    assert verdict["outcome"] == ("failed" if code else "completed")


# Breaks if nobody says that a training went on in the background and was ended with the pod, or if that is said of
# workers that end with their program, or of Holdfast's own writer.
@pytest.mark.parametrize(
    ("program", "left"), [(DAEMON, True), (WORKERS, False), (WRITER, False)], ids=["daemon", "workers", "writer"]
)
def test_what_goes_on_in_the_background_is_named(tmp_path: Path, program: str, left: bool) -> None:
    (tmp_path / "program.py").write_text(program)
    process = start_behind(tmp_path / "verdict", 'exec "$PYTHON" "$HERE/program.py"')
    _, err = process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "verdict")
    assert verdict["outcome"] == "completed", err
    message = str(verdict["message"])
    assert ("processes that it left still ran, and end with the pod: python" in message) == left, message


# Breaks if any output makes the launcher large, hides a figure that is printed after it, or moves the cursor of who
# reads the last lines.
def test_output_of_any_kind(tmp_path: Path) -> None:
    operator = FakeOperator()
    (tmp_path / "token").write_text("secret")
    variables = {
        "operator_url": f"http://127.0.0.1:{operator.server.server_port}", "HOLDFAST_NAMESPACE": "ns",
        "HOLDFAST_JOB": "a", "HOLDFAST_ATTEMPT": "2", "token_file": str(tmp_path / "token"),
        "patterns": ("step {step}/{total} loss={loss}",),
    }  # fmt: skip
    command = [PYTHON, str(LAUNCHER), "--", PYTHON, "-c", FLOOD]
    variables["HOLDFAST_TERMINATION_LOG"] = str(tmp_path / "verdict")
    try:
        done = subprocess.run(
            command, env=pod_variables({}, **variables), capture_output=True, timeout=120, check=False
        )
    finally:
        operator.server.shutdown()
        operator.server.server_close()
    assert done.returncode == 4
    assert len(done.stdout) > 106_000_000
    *_, last = json.loads((tmp_path / "verdict").read_text())["lastLines"]
    assert last.startswith("peak ")
    assert int(last.removeprefix("peak ")) < 64 << 10, "KiB of the launcher"
    _, _, report = operator.got[-1]
    assert (report["step"], report["steps"], report["figures"]["loss"]) == (7, 90, "1.5")


# Breaks if a trainer behind a script of Python is killed when the script ends, before it has saved.
def test_a_trainer_behind_a_script_has_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer.py").write_text(TORCHRUN_INSIDE)
    (tmp_path / "inner.py").write_text(SAVES)
    process = start_behind(tmp_path / "verdict", 'exec "$PYTHON" outer.py "$(cat inner.py)"')
    wait_for((tmp_path / "up").exists, 30, "the trainer")
    process.terminate()
    process.communicate("go on\n", timeout=60)
    assert (tmp_path / "saved").exists()
    assert verdict_of(tmp_path / "verdict")["outcome"] == "drained"


# Breaks if a program that takes its checkpoint as an option cannot be given the newest one, or is given the best one;
# or if the operator is not told that something was put back, because its name says no step.
def test_the_newest_checkpoint_is_in_a_variable(tmp_path: Path, endpoint: Endpoint) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "train.py").write_text(RESUMES)
    for attempt, code in ((1, 1), (2, 0)):
        root = tmp_path / f"outputs-{attempt}"
        program = shlex.join([PYTHON, str(tmp_path / "train.py"), "--output", str(root)])
        option = '${HOLDFAST_NEWEST_CHECKPOINT:+--resume "$HOLDFAST_NEWEST_CHECKPOINT"}'
        done = subprocess.run(
            [PYTHON, str(LAUNCHER), "--", "sh", "-c", f"exec {program} {option}"],
            env=pod(root, f"file://{tmp_path}/store/job", attempt, tmp_path / "log", **endpoint.variables),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert done.stdout == f"resumes from {root / 'last.pth.tar' if code == 0 else None}\n"
    told = {(report["attempt"], (report.get("resumedFrom") or {}).get("step")) for report in endpoint.reports}
    assert told - {(2, None)} == {(1, None), (2, 0)}, "a pod may report before it restores"
