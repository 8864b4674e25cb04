"""The control plane that everything is measured on."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.local.cluster import Cluster, ClusterConfig, Timings, up

# The peers' figures were taken at the default grace of 40 s; it decides only how long the silent node takes.
NODE_GRACE = 40.0
LEASE = 5.0


@contextmanager
def control_plane() -> Iterator[Cluster]:
    """etcd, API server, controller manager, scheduler; no node agent, no S3. Taken down at the end.

    The controller manager gets what makes batch/v1 Job fastest: 200/400 requests a second and 10 job syncs at once.
    """
    parent = Path(tempfile.mkdtemp(prefix="hf-bench-"))
    config = ClusterConfig(
        root=parent / "c",
        agent=False,
        s3=False,
        audit=True,
        timings=Timings(node_grace=NODE_GRACE, lease=LEASE),
        extra_args={
            "kube-controller-manager": [
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                "--concurrent-job-syncs=10",
            ],
            "kube-scheduler": ["--kube-api-qps=500", "--kube-api-burst=1000"],
        },
    )
    try:
        cluster = up(config)
        try:
            cluster.install()
            yield cluster
        finally:
            cluster.down()
    finally:
        shutil.rmtree(parent, ignore_errors=True)
