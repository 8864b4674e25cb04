"""One operator in the cluster, and a pool of nodes for each test."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from tests.support.cluster.training_jobs import Pool
from tests.support.operator.operator_process import OperatorProcess, in_place_of

from holdfast_local.cluster import Cluster

# Everything that an operator waits for, short: the local cluster calls a node silent after 6 s.
PATIENCE = {
    "acknowledge_timeout": 2,
    "image_pull_grace": 4,
    "image_refused_grace": 2,
    "config_error_grace": 3,
    "silent_timeout": 3,
    "backoff_base": 0.5,
    "backoff_limit": 4,
    "status_interval": 0.3,
    "end_margin": 10,
    "leave_margin": 4,  # a busy API server or disk may stand still for some seconds
    "probe_every": 2,
}

_numbers = count(1)


@pytest.fixture(scope="session")
def shared_operator(cluster: Cluster, lasting_operators: list[OperatorProcess]) -> Iterator[OperatorProcess]:
    """The operator that these tests share; it is started by the first test that asks for `operator`."""
    process = OperatorProcess(cluster, patience=PATIENCE)
    lasting_operators.append(process)
    yield process
    process.end()


@pytest.fixture
def operator(shared_operator: OperatorProcess) -> OperatorProcess:
    """The operator, running."""
    return shared_operator.up()


@pytest.fixture
def lone_operator(shared_operator: OperatorProcess) -> Iterator[Callable[..., OperatorProcess]]:
    """Makes an operator that a test may kill, in place of the shared one; not started.

    Arguments are settings of the operator; those of `patience` come on top of PATIENCE.
    """
    with in_place_of(shared_operator) as make:

        def make_quick(patience: dict[str, float] | None = None, **settings: Any) -> OperatorProcess:
            return make(patience={**PATIENCE, **(patience or {})}, **{"drain_timeout": 2, **settings})

        yield make_quick


@pytest.fixture
def pools(cluster: Cluster) -> Iterator[Callable[[], Pool]]:
    """Gives four fresh nodes at each call: spot-1, spot-2, dedicated-1, cpu-1."""
    given: list[Pool] = []

    def rent() -> Pool:
        given.append(Pool(cluster, f"p{next(_numbers)}"))
        return given[-1].rent()

    yield rent
    for pool in given:
        pool.give_back()


@pytest.fixture
def pool(pools: Callable[[], Pool]) -> Pool:
    """Four fresh nodes."""
    return pools()


@pytest.fixture(scope="session")
def lasting_pool(cluster: Cluster) -> Pool:
    """The nodes of `calm_pool`."""
    return Pool(cluster, f"p{next(_numbers)}")


@pytest.fixture
def calm_pool(lasting_pool: Pool) -> Pool:
    """A pool that many tests share, for none of them takes a node away.

    It is rented for each test: an agent that was killed brings only the default nodes up again.
    """
    return lasting_pool.rent()
