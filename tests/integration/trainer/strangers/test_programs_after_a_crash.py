"""Real programs with checkpoint.folder lose their machine, and go on as after a crash of one that kept its disk.

What a crash costs is tried too: the program is started again, without Holdfast, on the files that it has left.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.support.trainer.folders import is_committed, pod
from tests.support.trainer.stores import LAUNCHER, REPOSITORY
from tests.support.waiting import wait_for

PROGRAMS = REPOSITORY / "tests/support/trainer/strangers"
STEPS = 60
LOST_AT = 40  # the save after which the machine is lost


def copy(folder: Path, to: Path) -> None:
    """Copy a folder with its times, and change the folders in it one after the other, as they were changed."""
    shutil.copytree(folder, to, symlinks=True)
    inside = [path for path in to.rglob("*") if path.is_dir() and not path.is_symlink()]
    for path in sorted(inside, key=lambda path: path.stat().st_mtime_ns):
        at = path.stat().st_mtime_ns
        before = time.time_ns()
        while path.stat().st_ctime_ns <= before:
            os.utime(path, ns=(at, at))


class Place:
    """The folder of a program, and the store of its job, which can be as they were at the loss."""

    def __init__(self, path: Path, program: str, *arguments: str) -> None:
        self.path, self.root, self.store, self.notes = path, path / "outputs", path / "store", path / "notes"
        self.root.mkdir()
        self.store.mkdir()
        self._program, self._arguments = str(PROGRAMS / f"{program}.py"), arguments

    def command(self, seconds: float) -> list[str]:
        return [sys.executable, self._program, str(self.root), str(STEPS), str(seconds), *self._arguments]

    def environment(self, attempt: int | None) -> dict[str, str]:
        """Of a pod; without an attempt, of a machine without Holdfast."""
        known = dict(os.environ)
        if attempt is not None:
            known = pod(self.root, f"file://{self.store}/job", attempt, self.path / f"log-{attempt}")
        return {**known, "NOTES": str(self.notes), "OMP_NUM_THREADS": "1"}

    def lose(self) -> None:
        """Attempt 1 trains until a save is committed, and ends without a word."""
        with (self.path / "output").open("w") as output:
            process = psutil.Popen(
                [sys.executable, str(LAUNCHER), "--", *self.command(0.3)],
                env=self.environment(1), stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            wait_for(lambda: f"saved {LOST_AT}\n" in self.noted(), 120, self.said)
            for child in process.children(recursive=True):
                if self._program in child.cmdline():
                    child.send_signal(signal.SIGSTOP)
            wait_for(lambda: is_committed(self.store / "job", self.root), 60, self.said)
        finally:
            everyone = [*process.children(recursive=True), process]
            for one in everyone:
                one.kill()
            psutil.wait_procs(everyone)
        for folder in (self.root, self.store):
            copy(folder, Path(f"{folder}-lost"))

    def again(self, *, stays: bool, attempt: int | None) -> str:
        """What the program notes that goes on after the loss, on a volume that stays, or in an empty folder."""
        for folder in (self.root, self.store):
            shutil.rmtree(folder)
            copy(Path(f"{folder}-lost"), folder)
        if not stays:
            shutil.rmtree(self.root)
        self.notes.unlink()
        launcher = [] if attempt is None else [sys.executable, str(LAUNCHER), "--"]
        done = subprocess.run(
            [*launcher, *self.command(0)],
            env=self.environment(attempt), capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return self.noted()

    def noted(self) -> str:
        return self.notes.read_text(encoding="utf-8") if self.notes.exists() else ""

    def said(self) -> str:
        return f"a commit of step {LOST_AT}:\n{(self.path / 'output').read_text()}"


# Breaks if a loss costs a program more than a crash of its machine would, or if it ends with another model.
@pytest.mark.parametrize(
    "program",
    [
        "own_loop in-place",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in (
                "own_loop numbered",
                "own_loop replaced",
                "own_loop in-run-folder",
                "own_loop pickled",
                "own_loop distributed",
                "with_accelerate",
                "with_lightning",
                "lightning_best",
                "trainer_best",
            )
        ),
    ],
)
@pytest.mark.timeout(900)  # the waits are bounded; four starts of torch take minutes on a busy machine
def test_it_goes_on_as_after_a_crash(tmp_path: Path, program: str) -> None:
    place = Place(tmp_path, *program.split())
    place.lose()
    after_a_crash = place.again(stays=True, attempt=None)
    assert after_a_crash.startswith(f"start {LOST_AT}\n")
    assert "result" in after_a_crash
    assert place.again(stays=False, attempt=2) == after_a_crash, "in an empty folder"
    assert place.again(stays=True, attempt=2) == after_a_crash, "on a volume that stays"
