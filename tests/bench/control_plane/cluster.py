"""The control plane that everything is measured on."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster.local_cluster import running_cluster

from holdfast_local.agent.config import Timings
from holdfast_local.cluster import Cluster

# The peers' figures were taken at the default grace of 40 s; it decides only how long the silent node takes.
NODE_GRACE = 40.0
LEASE = 5.0
# The controller manager gets what makes batch/v1 Job fastest: 200/400 requests a second and 10 job syncs at once.
ARGUMENTS = {
    "kube-controller-manager": ["--kube-api-qps=200", "--kube-api-burst=400", "--concurrent-job-syncs=10"],
    "kube-scheduler": ["--kube-api-qps=500", "--kube-api-burst=1000"],
}


@contextmanager
def control_plane() -> Iterator[Cluster]:
    """etcd, API server, controller manager, scheduler; no node agent, no S3. Taken down at the end."""
    timings = Timings(node_grace=NODE_GRACE, lease=LEASE)
    with running_cluster(agent=False, s3=False, audit=True, timings=timings, extra_args=ARGUMENTS) as cluster:
        cluster.install()
        yield cluster
