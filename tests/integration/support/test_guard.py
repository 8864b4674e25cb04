"""A run of tests that is killed leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from tests.support.cluster.isolated import MISSING
from tests.support.guard import REPOSITORY
from tests.support.waiting import wait_for

from holdfast_local.network.links import NAMESPACES
from holdfast_local.state import ClusterState

RUN = """
import subprocess
from pathlib import Path

from tests.support import guard
from tests.support.cluster.local_cluster import running_cluster
from tests.support.operator.operator_process import OperatorProcess


def test_run(tmp_path):
    trainer = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with running_cluster(network="NETWORK") as cluster, guard.temporary_folder("hf-guard-") as folder:
        cluster.install()
        operator = OperatorProcess(cluster).start()
        (folder / "file").touch()
        note = f"{cluster.root.parent}\\n{folder}\\n{trainer.pid} {operator.pid}\\n"
        Path("NOTE").write_text(note)
        trainer.wait()
"""


# Breaks if a test run that gets SIGTERM, or is killed, leaves an API server, an operator, a trainer, a folder or a
# network.
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("number", "network"),
    [
        (signal.SIGKILL, "shared" if MISSING else "isolated"),
        pytest.param(signal.SIGTERM, "shared", marks=pytest.mark.thorough),  # Python handles neither of them
    ],
)
def test_a_killed_run_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, network: str) -> None:
    note, name = tmp_path / "note", f"test_{os.getpid()}_{number.name.lower()}_{network}.py"
    program = tmp_path / name
    program.write_text(textwrap.dedent(RUN).replace("NOTE", str(note)).replace("NETWORK", network))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", str(REPOSITORY / "pyproject.toml")]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen([*command, str(program)], stdout=log, stderr=log, cwd=REPOSITORY)
    try:
        wait_for(note.exists, 120, "the run to have a cluster, an operator and a trainer")
        wait_for(lambda: note.read_text().count("\n") == 3, 10, "the note")
        cluster, folder, pids = note.read_text().splitlines()
        plan = ClusterState.load(Path(cluster) / "c").network
        assert bool(plan) == (network == "isolated")
        started = [psutil.Process(int(pid)) for pid in pids.split()]
        started += [p for p in psutil.process_iter(["cmdline"]) if cluster in " ".join(p.info["cmdline"] or ())]
        assert len(started) > 5  # etcd, the control plane's three, the agent, S3, operator, trainer
        run.send_signal(number)
        assert run.wait(20) == -number
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not any(process.is_running() for process in started), 60, "every process to end")
    if plan is not None:
        wait_for(lambda: not any((NAMESPACES / name).exists() for name in plan.namespaces), 20, "the network to go")
        assert plan.link not in {name for _, name in socket.if_nameindex()}
    wait_for(lambda: not Path(cluster).exists() and not Path(folder).exists(), 20, "the folders to be removed")
