"""The address of a job's run in a tracker: from its program, or its launcher, to people."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.cluster.training_jobs import Job, Pool, submit
from tests.support.http.mlflow_server import mlflow_server

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.usefixtures("operator")
# Stands for the library: its names, and the line that it prints when a run begins, are those of wandb 0.31.0.
WANDB = """
import os, sys, types
run = None
def init():
    global run
    url = "https://wandb.example/team/faces/runs/" + os.environ["WANDB_RUN_ID"] + "?apiKey=secret"
    run = types.SimpleNamespace(url=url, offline=False)
    print("wandb: 🚀 View run at", url, file=sys.stderr)
"""
WITH_RUN = """
import contextlib, io, sys, time, wandb
from holdfast_train import Run
from holdfast_train.examples.stub import Counter
with contextlib.redirect_stderr(io.StringIO()):  # nothing but the process knows the address
    wandb.init()
with Run(counter=Counter()) as run:
    for step in run.steps(100_000):
        time.sleep(0.05)
"""
AS_IT_IS = "import time, wandb\nwandb.init()\nwhile True:\n    time.sleep(1)\n"


def start(cluster: Cluster, namespace: str, pool: Pool, folder: Path, program: str, **env: str) -> Job:
    """A job with both trackers, whose program finds the small library."""
    (folder / "wandb.py").write_text(WANDB, encoding="utf-8")
    command = ["python", "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"]
    variables = [{"name": name, "value": value} for name, value in env.items()]
    trainer = {"command": command, "env": variables, "tracking": {"wandb": True, "mlflow": bool(env)}}
    tiers = [pool.tier(kind) for kind in ("spot", "dedicated")]
    return submit(cluster, namespace, tiers, command, trainer=trainer, goal={"steps": 100_000})


def said(cluster: Cluster, job: Job, *command: str) -> subprocess.CompletedProcess[str]:
    """What a command about the job says."""
    program = str(Path(sys.executable).with_name("holdfast"))
    line = [program, *command, "-n", job.namespace, "--kubeconfig", str(cluster.admin_kubeconfig)]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=120)


def urls(status: dict[str, object]) -> dict[str, str]:
    found = status.get("tracking") or []
    assert isinstance(found, list)
    return {one["tracker"]: one["url"] for one in found}


# Breaks if the address of a run does not reach people, has a key, or is forgotten when the node is lost.
def test_the_run_of_a_program_with_the_library(cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path) -> None:
    job = start(cluster, namespace, pool, tmp_path, WITH_RUN)
    job.wait("a run", urls, 120)
    url = f"https://wandb.example/team/faces/runs/{job.get()['metadata']['uid']}"
    assert urls(job.status()) == {"wandb": url}
    node = job.wait("a step", lambda s: s.get("progress", {}).get("step"))["node"]
    cluster.reclaim(node, timedelta(seconds=20))
    job.wait("another attempt", lambda s: s["attempt"] == 2, 120)
    assert urls(job.status()) == {"wandb": url}
    assert url in said(cluster, job, "describe", "job").stdout
    told = said(cluster, job, "logs", "job")
    assert told.stderr.startswith(f"wandb: {url}\n")
    assert url not in told.stdout
    report = tmp_path / "report.html"
    said(cluster, job, "report", "job", "--output", str(report))
    assert f'<a href="{url}" target="_blank" rel="noopener noreferrer">{url}</a>' in report.read_text(encoding="utf-8")
    seen = json.loads(said(cluster, job, "describe", "job", "-o", "json").stdout)
    assert seen["job"]["status"]["tracking"] == [{"tracker": "wandb", "url": url}]


# Breaks if nobody learns of the runs of a program that reports nothing, or sees the password of the server.
def test_the_runs_of_a_program_as_it_is(cluster: Cluster, namespace: str, calm_pool: Pool, tmp_path: Path) -> None:
    with mlflow_server() as server:
        uri = server.uri.replace("//", "//me:secret@")
        job = start(cluster, namespace, calm_pool, tmp_path, AS_IT_IS, MLFLOW_TRACKING_URI=uri)
        found = urls(job.wait("two runs", lambda s: len(urls(s)) == 2, 120))
    assert found == {
        "mlflow": f"{server.uri}/#/experiments/0/runs/run0",
        "wandb": f"https://wandb.example/team/faces/runs/{job.get()['metadata']['uid']}",
    }
