"""One cluster with two real nodes, and the release that Helm installs into it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.report import PAGE, Case
from tests.node.report import write as write_page
from tests.support.cluster.local_cluster import apply
from tests.support.operator.release import CHART, GOOD_IN, NAMESPACE, Release
from tests.support.real_node.cluster import RealCluster, real_cluster
from tests.support.real_node.images import Images
from tests.support.real_node.needs import missing

from holdfast_local.cluster import Cluster

NODES = {"real-1": {}, "real-2": {}}

_cases: list[Case] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of these tests."""
    parser.addoption("--record", action="store_true", help=f"write what became of each test into {PAGE.name}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a test ended."""
    if report.when == "call" or report.outcome != "passed":
        _cases.append(Case(report.nodeid, report.outcome, report.duration))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page, if tests of all files here were run: else it would say that these cases are all."""
    ran = {case.test.partition("::")[0].rpartition("/")[2] for case in _cases}
    if session.config.getoption("--record") and ran == {path.name for path in Path(__file__).parent.glob("test_*.py")}:
        write_page(_cases)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these tests out, with a reason, where there can be no real nodes."""
    if lacking := missing():
        for item in items:
            item.add_marker(pytest.mark.skip(f"real nodes need {', '.join(lacking)}"))


@pytest.fixture(scope="session")
def images() -> Iterator[Images]:
    """The images of this tree."""
    with Images.built() as found:
        yield found


@pytest.fixture(scope="session")
def real(images: Images) -> Iterator[RealCluster]:
    """The cluster."""
    with real_cluster(NODES, images.archives) as found:
        yield found


@pytest.fixture(scope="session")
def cluster(real: RealCluster) -> Cluster:
    """Its control plane."""
    return real.cluster


@pytest.fixture(scope="session")
def release(real: RealCluster) -> Release:
    """The release, in a namespace with the strictest rules for pods."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    apply(real.cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    made = Release(real.cluster)
    options = ("--set", "image.pullPolicy=Never", "--set", "antiAffinity=Required")
    done = made.helm("install", str(CHART), "--wait", "--timeout", GOOD_IN, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return made
