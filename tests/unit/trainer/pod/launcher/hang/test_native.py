"""Native stacks of a process, from the real py-spy; where it is not there or tells nothing, there are none."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_train.pod.launcher.hang.native import native_stacks

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
WAITS = "import sys, time\ndef wait_for_data():\n  time.sleep(600)\nprint(1, flush=True)\nwait_for_data()"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def rank(pid: int, python: str = "") -> RankVerdict:
    return RankVerdict(3, "running", "", "", None, None, 0.0, pid, python=python)


def test_frames_of_python_and_below(process: "subprocess.Popen[str]") -> None:
    """Breaks if py-spy beside the program's Python is not found, or stops the process."""

    def has_native_frames() -> bool:
        found = native_stacks([rank(process.pid, sys.executable)], {})[3]
        assert "wait_for_data (<string>:3)" in found
        return "nanosleep" in found

    wait_for(has_native_frames, 60, "the frame in which the C library sleeps")
    assert process.poll() is None


def test_nothing_without_py_spy(process: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert native_stacks([rank(process.pid, str(tmp_path / "python"))], {"PATH": str(tmp_path)}) == {}


def test_a_process_that_has_ended_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Breaks if one rank that py-spy cannot read costs the evidence of the others."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert native_stacks([rank(ended.pid, sys.executable)], {}) == {}
    assert "py-spy tells nothing of rank 3: " in capfd.readouterr().err


def test_its_reason_is_said_although_its_exit_code_is_lost(
    process: "subprocess.Popen[str]", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Breaks if nobody learns that py-spy may not trace, because PID 1 has collected it: its code is 0 then."""
    (tmp_path / "py-spy").write_text("#!/bin/sh\necho 'Permission Denied' >&2\n")
    (tmp_path / "py-spy").chmod(0o755)
    assert native_stacks([rank(process.pid, str(tmp_path / "python"))], {}) == {}
    assert "py-spy tells nothing of rank 3: Permission Denied" in capfd.readouterr().err
