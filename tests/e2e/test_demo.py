"""The demo cleans up. That it plays to its end is what `make demo` shows; here it is stopped on the way."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.guard import temporary_folder
from tests.support.waiting import wait_for


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder for the demo's files: pytest's own are too long for a unix socket."""
    with temporary_folder("hf-") as made:
        yield made


def processes_below(folder: Path) -> list[str]:
    """Command lines of every process that was given a path in the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            found.append(line)
    return found


# Breaks if an interrupted demo leaves a cluster, an operator or a training behind.
@pytest.mark.thorough
@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(folder: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(demo.stdout or ()), daemon=True)
    reader.start()
    try:
        wait_for(lambda: [line for line in lines if " Running " in line], 180, "the job to run")
        assert any("holdfast.runtime run" in line for line in processes_below(folder))
        demo.send_signal(number)
        assert demo.wait(60) == 130, "".join(lines)
    finally:
        demo.kill()
        demo.wait()
        reader.join(10)
    assert wait_for(lambda: not processes_below(folder), 20, "every process to end")
    assert not list(folder.iterdir())
