"""The demo's stage: a local cluster, the operator with its own rights, a namespace, a Secret and the job."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from holdfast.api.scalars import format_time
from holdfast_local import processes
from holdfast_local.agent.config import NodeSpec
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.demo.errors import DemoError
from holdfast_local.installed.ensure import install
from holdfast_local.monitoring import DASHBOARDS
from holdfast_local.processes import ProcessState
from holdfast_local.progress_bar import Report
from holdfast_local.state import S3Access

NAMESPACE = "demo"
LOG_LINES = 15
# A demo takes minutes, not weeks: the operator reads and writes more often than by default.
PATIENCE = {"silent_timeout": 3.0, "status_interval": 1.0, "leave_margin": 5.0}


@dataclass(slots=True)
class Stage:
    """What was set up. `folder` contains all files."""

    folder: Path
    cluster: Cluster

    def check_operator(self) -> None:
        """Raises DemoError, with the end of its log, if the operator has ended."""
        operator = self.cluster.part(OPERATOR)
        if processes.state(operator) is ProcessState.DEAD:
            raise DemoError("the operator ended:\n" + "\n".join(processes.log_tail(operator, LOG_LINES)))


@contextmanager
def stage(report: Report, nodes: tuple[NodeSpec, ...], *, keep: bool) -> Iterator[Stage]:
    """Set everything up, with these nodes, and remove it at the end in every case, unless `keep` is set.

    With `keep` the cluster has a Prometheus too, for a look at the metrics afterwards.

    Raises LocalError, ToolError, DemoError.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    made: Stage | None = None
    cluster: Cluster | None = None
    try:
        cluster = up(ClusterConfig(root=folder / "cluster", nodes=nodes, prometheus=keep), report)
        install(cluster, report, [part for pair in PATIENCE.items() for part in ("--patience", "{}={}".format(*pair))])
        made = Stage(folder, cluster)
        yield made
    finally:
        if keep and made:
            report.note(kept(made))
        else:
            with undisturbed():
                with suppress(OSError):  # the terminal may be gone
                    report.note("Removing everything ...")
                if cluster:
                    cluster.down()
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not interrupt the removal: processes would stay behind."""
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def kept(made: Stage) -> str:
    """How to use a stage that was kept, and how to end it."""
    root = made.cluster.root
    return (
        f"\nKept, with the operator as process {made.cluster.part(OPERATOR).pid}. To look around:\n"
        f"  export KUBECONFIG={made.cluster.admin_kubeconfig} PATH={made.cluster.bin}:$PATH\n"
        f"  holdfast watch -n {NAMESPACE}\n"
        f"Prometheus answers at {made.cluster.prometheus} (its API, such as /api/v1/query?query=holdfast_job_step).\n"
        f"For Grafana, make it a data source and import the files of {DASHBOARDS}.\n"
        f"To end it:\n"
        f"  holdfast local down --root {root}; rm -r {made.folder}"
    )


def job_manifest(file: Path, s3: S3Access, now: datetime) -> dict[str, Any]:
    """The TrainingJob of the file, with the local cluster's storage; a deadline becomes one day from now.

    Raises DemoError.
    """
    try:
        found = [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DemoError(f"{file} cannot be read: {error}") from error
    jobs = [document for document in found if document.get("kind") == "TrainingJob"]
    if len(jobs) != 1:
        raise DemoError(f"{file} contains {len(jobs)} TrainingJobs: exactly one is needed")
    job: dict[str, Any] = jobs[0]
    job["metadata"]["namespace"] = NAMESPACE
    capacity = job["spec"].get("capacity", {})
    if "deadline" in capacity:
        capacity["deadline"] = format_time((now + timedelta(days=1)).replace(microsecond=0))
    storage = job["spec"]["checkpoint"]["storage"].get("s3")
    if storage is None:
        raise DemoError(f"{file}: spec.checkpoint.storage.s3 is not set: the demo saves to the local S3 server")
    storage |= {"bucket": s3.bucket, "endpoint": s3.endpoint, "region": s3.region, "credentialsSecret": "s3"}
    return job


def apply_surroundings(cluster: Cluster) -> None:
    """Apply what a job needs: the namespace, and the Secret with the storage's keys. Raises LocalError."""
    s3 = cluster.s3
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s3", "namespace": NAMESPACE},
        "stringData": {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    _apply(cluster, namespace, secret)


def apply_job(cluster: Cluster, job: dict[str, Any]) -> None:
    """Apply the job. Raises LocalError."""
    _apply(cluster, job)


def _apply(cluster: Cluster, *objects: dict[str, Any]) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects, sort_keys=False))


def example(name: str) -> Path:
    """This file of examples/ of the checkout that this code runs from. Raises DemoError if there is none."""
    file = Path(__file__).resolve().parents[4] / "examples" / name
    if not file.is_file():
        raise DemoError(f"examples/{name} was not found: run the demo from a checkout, or give --job FILE")
    return file


def check_trainer() -> None:
    """Raises DemoError if the trainer is not installed beside this program."""
    if shutil.which("holdfast-run", path=f"{Path(sys.executable).parent}{os.pathsep}") is None:
        raise DemoError("holdfast-train is not installed beside holdfast: run `make setup` in a checkout")
