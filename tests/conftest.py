"""Fixtures that need a running local cluster. One cluster serves a whole pytest process."""

from collections.abc import Iterator

import pytest
from tests.support.cluster import fresh_namespace, running_cluster

from holdfast.local.cluster import Cluster


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
