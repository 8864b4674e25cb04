"""Fixtures that need a running local cluster. One cluster serves a whole pytest process.

Also how hypothesis works: the same examples in every run, however slow the machine is. To look for more, run
`pytest --hypothesis-profile=explore` now and then.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.support import guard
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster

from holdfast.local.cluster import Cluster

settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False, max_examples=1000)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing that a run starts outlives it, even if the run is killed."""
    guard.start()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster with audit log, S3 server and the default nodes. Tests share it: leave its nodes as they were."""
    with running_cluster(audit=True) as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with fresh_namespace(cluster) as name:
        yield name
