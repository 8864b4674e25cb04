"""Fixtures that need a running local cluster, and the choice of a part of the tests.

One cluster serves a whole pytest process: the tests of single parts and those of whole jobs. `--choose 6 --seed TEXT`
runs six of the collected tests, the same ones for the same text: a part of the long tests for each change.

Also how hypothesis works: the same examples in every run, however slow the machine is; more of them in
`make test-thorough`. To look for others, run `pytest --hypothesis-profile=explore` now and then.
"""

import gc
import os
import random
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.support import guard
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import pool_nodes
from tests.support.no_browser import not_tested
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster
from holdfast_local.config import DEFAULT_IMAGES, DEFAULT_NODES

# torch asks the resolver for the name of each address that connects, also of loopback. A question that gets lost costs
# all ranks one second, rather than the usual five. The processes of tests inherit it, and pods get it.
os.environ.setdefault("RES_OPTIONS", "timeout:1")
IMAGES = {
    name: image.model_copy(update={"env": {**image.env, "RES_OPTIONS": os.environ["RES_OPTIONS"]}})
    for name, image in DEFAULT_IMAGES.items()
}

POOLS = 32  # for one pytest process; a test that breaks its nodes takes a pool that no later test uses

settings.register_profile(
    "same", max_examples=50, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.register_profile("more", settings.get_profile("same"), max_examples=400)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False, max_examples=1000)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the choice."""
    parser.addoption("--choose", type=int, metavar="N", help="run only N of the tests, chosen by --seed")
    parser.addoption(
        "--seed", default="", metavar="TEXT", help="which tests --choose takes: the same for the same text"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without searches for garbage. Modules and tests stay, so that no later search goes through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in their order."""
    count = config.getoption("--choose")
    if count is None or count >= len(items):
        return
    chosen = set(random.Random(config.getoption("--seed")).sample([item.nodeid for item in items], count))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]


def pytest_configure(config: pytest.Config) -> None:
    """Nothing that a run starts outlives it, even if the run is killed. A run in the background is as in a terminal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what ends with &; children inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    guard.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say at the end if no browser was there: the skipped tests are the only ones of the pages' JavaScript."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    if words := not_tested(str(report.longrepr) for report in skipped):
        terminalreporter.write_line(words, yellow=True, bold=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster in which Holdfast is installed, with audit log, the default nodes, and pools that tests bring up.

    Tests share it: leave its default nodes as they were.
    """
    pools = (node for number in range(1, POOLS + 1) for node in pool_nodes(number))
    with running_cluster(audit=True, nodes=(*DEFAULT_NODES, *pools), images=IMAGES) as running:
        running.install()
        # The garbage collector learns of new kinds when it starts, and then only every 30 s.
        running.kill_component("kube-controller-manager")
        running.start_component("kube-controller-manager")
        yield running


@pytest.fixture(scope="session")
def lasting_operators() -> list[OperatorProcess]:
    """The operators that run on after their test. A test that is to have none, or another one, stops them first."""
    return []


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with fresh_namespace(cluster) as name:
        yield name
