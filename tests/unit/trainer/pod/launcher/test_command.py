"""The command: what it tells torchrun, what it says without a command, and what it costs a training on one node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of
from tests.support.trainer.stores import LAUNCHER

from holdfast_train.pod.launcher import command


@pytest.mark.parametrize(("grace", "seconds"), [(100.0, 90), (30.0, 24), (5.0, 4), (0.5, 1), (3600.0, 3590)])
def test_torchrun_waits_less_than_the_grace(grace: float, seconds: int) -> None:
    assert command.shutdown_timeout(grace) == seconds


def test_no_command(tmp_path: Path) -> None:
    process = start(tmp_path / "log")
    process.communicate(timeout=30)
    assert process.returncode == 127
    assert verdict_of(tmp_path / "log")["reason"] == "CommandNotFound"


# Breaks if a training on one node pays for those on several: in threads, or in modules that are imported.
@pytest.mark.parametrize("nodes", ["", "1"])
def test_one_node_has_no_part_of_several(tmp_path: Path, nodes: str) -> None:
    code = "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))"
    command = [sys.executable, "-X", "importtime", str(LAUNCHER), "--", sys.executable, "-c", code]
    env = {**os.environ, "HOLDFAST_NODES": nodes, "HOLDFAST_TERMINATION_LOG": str(tmp_path / "log")}
    found = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert int(found.stdout) <= 3  # the main thread, and one for each output, which may not have begun
    imported = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    own = {name for name in imported if name.startswith("holdfast_launcher.")}
    names = ("command", "process_tree", "program", "progress", "progress.relay", "room", "tee")
    signals = ("signals", "signals.forwarding", "signals.receivers")
    after = ("failed_process", "torchrun_report", "verdict", "verdict_files")
    assert own == {f"holdfast_launcher.{name}" for name in (*names, *signals, *after)}
    assert not imported & {"ctypes", "http.client", "queue", "random", "socket", "ssl", "tempfile"}


NEWER = """
import json, os
own = json.loads(os.environ["HOLDFAST_SETTINGS"])
os.environ["HOLDFAST_SETTINGS"] = json.dumps({**own, "version": 2})
import holdfast_train
with holdfast_train.Run(): pass
"""


# Breaks if an image whose library does not know the settings of a newer operator is started again and again.
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (NEWER, "HOLDFAST_SETTINGS.version is 2; allowed: at most 1"),
        (
            "import os; os.environ['HOLDFAST_ATTEMPT'] = 'x'; import holdfast_train as h\nwith h.Run(): pass",
            "HOLDFAST_ATTEMPT is",
        ),
    ],
)
def test_a_library_that_cannot_read_its_settings_is_misconfigured(tmp_path: Path, program: str, words: str) -> None:
    names = {"HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "job", "HOLDFAST_JOB_UID": "j", "HOLDFAST_ATTEMPT": "1"}
    process = start(tmp_path / "log", sys.executable, "-c", program, checkpoint_uri=f"file://{tmp_path}/runs", **names)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], process.returncode) == ("misconfigured", "EnvironmentInvalid", 78)
    assert words in str(verdict["message"])


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HOLDFAST_RANK": "2"}, "HOLDFAST_RANK is '2'; allowed: a whole number from 0 to 1"),
        ({"HOLDFAST_POD_IP": "192.0.2.1"}, "HOLDFAST_POD_IP is '192.0.2.1'; allowed: an address of this pod"),
        ({"HOLDFAST_NODES": "two"}, "HOLDFAST_NODES is 'two'"),
    ],
)
def test_wrong_variables_of_several_nodes(tmp_path: Path, variables: dict[str, str], words: str) -> None:
    good = {"HOLDFAST_NODES": "2", "HOLDFAST_RANK": "0", "HOLDFAST_POD_IP": "127.0.0.1", "HOLDFAST_POD_UID": "u"}
    good |= {"operator_url": "https://127.0.0.1:9", "HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "job"}
    process = start(tmp_path / "log", "true", **(good | variables))
    process.communicate(timeout=30)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], process.returncode) == ("misconfigured", "EnvironmentInvalid", 78)
    assert str(verdict["message"]).startswith(words)
