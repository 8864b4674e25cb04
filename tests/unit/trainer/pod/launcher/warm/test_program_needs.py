"""For which processes of a program another one waits."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.trainer.spares import make_torch, tell
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.process_tree import descendants
from holdfast_train.pod.launcher.warm.command import PythonCommand
from holdfast_train.pod.launcher.warm.program_needs import OF_TORCHRUN, Needs, environment_of, find_needs, uses_torch

DIRECT = PythonCommand(("python",), script="train.py")
TORCHRUN = PythonCommand(("python",), script="/bin/torchrun")
# Starts two ranks, as torchrun does, and a process that is no rank.
RANKS = """
import os, subprocess, sys
for rank in range(2):
    env = {**os.environ, "TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
    subprocess.Popen([sys.executable, "-u", "-c", "import torch, sys; sys.stdin.read()"], env=env)
subprocess.Popen([sys.executable, "-c", "import torch, sys; sys.stdin.read()"])
sys.stdin.read()
"""


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[int]:
    """A process with two ranks, which have imported torch."""
    env = {"PYTHONPATH": make_torch(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", RANKS], env=env, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        wait_for(lambda: len([one for one in descendants(process.pid) if uses_torch(one)]) == 3, 60, "the ranks")
        yield process.pid


def rank(torchrun: int, number: int) -> int:
    return next(pid for pid in descendants(torchrun) if environment_of(pid).get(b"LOCAL_RANK") == b"%d" % number)


# Breaks if a process waits for a part of the ranks, or for ranks of which it is not known what they do before imports.
def test_ranks_under_torchrun(tmp_path: Path, torchrun: int) -> None:
    folder = str(tmp_path / "verdicts")
    assert find_needs(torchrun, TORCHRUN, folder, waits_no_longer=False) is None
    tell(tmp_path / "verdicts", rank(torchrun, 0), "torch")
    tell(tmp_path / "verdicts", torchrun, "torch", local_rank=1)  # of another process
    assert find_needs(torchrun, TORCHRUN, folder, waits_no_longer=False) is None
    assert find_needs(torchrun, TORCHRUN, folder, waits_no_longer=True) == Needs(OF_TORCHRUN, {}, [])
    tell(tmp_path / "verdicts", rank(torchrun, 1), "torch", "numpy", local_rank=1)
    needs = find_needs(torchrun, TORCHRUN, folder, waits_no_longer=False)
    assert needs is not None
    assert [one.told.modules for one in needs.workers] == [["torch"], ["torch", "numpy"]]
    assert [one.environment[b"LOCAL_RANK"] for one in needs.workers] == [b"0", b"1"]
    assert needs.workers[0].argv == [os.fsencode(sys.executable), b"-u", b"-c", b"import torch, sys; sys.stdin.read()"]
    tell(tmp_path / "verdicts", rank(torchrun, 1), "torch", local_rank=1, changed=["OMP_NUM_THREADS"])
    needs = find_needs(torchrun, TORCHRUN, folder, waits_no_longer=False)
    assert needs is not None
    assert needs[:3] == (OF_TORCHRUN, {}, [])
    assert "OMP_NUM_THREADS" in needs.why_not


# Breaks if a rank that is not there is left out.
def test_ranks_that_are_not_there(tmp_path: Path, torchrun: int) -> None:
    os.kill(rank(torchrun, 1), 9)
    wait_for(lambda: len(descendants(torchrun)) == 2, 20, "the end of a rank")
    tell(tmp_path / "verdicts", rank(torchrun, 0), "torch")
    assert find_needs(torchrun, TORCHRUN, str(tmp_path / "verdicts"), waits_no_longer=True) is None


# Breaks if the modules of a program's child are imported into a process that waits for the program.
def test_a_program_without_torchrun(tmp_path: Path) -> None:
    for number, expected in ((7, Needs(["torch"], {"torch": ""}, [])), (8, None)):
        tell(tmp_path, number, "torch")
        assert find_needs(7, DIRECT, str(tmp_path), waits_no_longer=True) == expected
    assert find_needs(7, DIRECT, None, waits_no_longer=True) is None


def test_a_program_that_uses_torch(tmp_path: Path) -> None:
    packages = {"PYTHONPATH": make_torch(tmp_path)}
    for code, uses in (("import torch", True), ("pass", False)):
        command = [sys.executable, "-c", f"{code}; print(flush=True); input()"]
        with subprocess.Popen(
            command, env=packages, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert uses_torch(process.pid) is uses
            process.kill()
    assert not uses_torch(2**22 + 1)


# Breaks if the process that waits for the third attempt gets variables of the one that has waited for the second.
@pytest.mark.parametrize("path", ["", "/packages:/more"])
def test_the_environment_of_a_process_that_has_waited(path: str) -> None:
    more = {"HOLDFAST_SPARE": "9", "PYTHONPATH": f"/hook:{path}" if path else "/hook"}
    with subprocess.Popen(["cat"], env={"PATH": os.environ["PATH"], **more}, stdin=subprocess.PIPE) as process:
        found = wait_for(lambda: environment_of(process.pid), 20, "a process that has started")
    assert found == {b"PATH": os.environb[b"PATH"], **({b"PYTHONPATH": path.encode()} if path else {})}
