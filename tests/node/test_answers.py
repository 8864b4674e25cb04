"""What real kubelets say of pods is what the simulated kubelet is held against."""

import json

import pytest
from tests.support.cluster.kubelet_answers import PODS, RECORDED, answers
from tests.support.real_node.images import Images

from holdfast_local.cluster import Cluster


@pytest.mark.parametrize("name", PODS)
def test_a_pod_that(cluster: Cluster, namespace: str, images: Images, name: str, pytestconfig: pytest.Config) -> None:
    """Breaks if a kubelet says something that the tests with simulated nodes do not know of."""
    seen = answers(cluster, namespace, name, images.base)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if pytestconfig.getoption("--record"):
        RECORDED.write_text(json.dumps(recorded | {name: seen}, indent=2) + "\n")
    else:
        assert seen == recorded[name]
