"""Addresses of pods where all nodes share the network of the machine."""

import urllib.request

import pytest
from tests.support.cluster.agent_pods import container, pod, run, server, until_gone, until_phase, until_ready
from tests.support.cluster.local_cluster import delete

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

PORT = 29500  # the port that torchrun chooses too


def _answer(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}:{PORT}/name", timeout=5) as answer:
        text: str = answer.read().decode()
        return text.strip()


# Breaks if pods have one address, or a readiness probe asks another pod that listens on the same port.
def test_pods_listen_on_the_same_port_of_addresses_of_their_own(cluster: Cluster, namespace: str) -> None:
    run(cluster, namespace, server("a", PORT, nodeName="cpu-1"), server("b", PORT, nodeName="cpu-1"))
    run(cluster, namespace, server("c", PORT, nodeName="dedicated-1"))
    seen = {name: until_ready(cluster, namespace, name) for name in "abc"}
    addresses = {name: one["podIP"] for name, one in seen.items()}
    assert len(set(addresses.values())) == 3
    assert all(one["podIPs"] == [{"ip": one["podIP"]}] and one["hostIP"] == "127.0.0.1" for one in seen.values())
    assert {name: _answer(address) for name, address in addresses.items()} == {name: name for name in "abc"}

    delete(cluster, "pod/a", namespace)
    until_gone(cluster, namespace, "a")
    run(cluster, namespace, server("d", PORT, nodeName="cpu-1"))
    assert until_ready(cluster, namespace, "d")["podIP"] not in addresses.values(), "an address rests before it is used"


# Breaks if a program must listen on the address of its pod.
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_programs_may_listen_on_other_addresses(cluster: Cluster, namespace: str, address: str) -> None:
    script = f"""python - <<'EOF'
import os, socket
server = socket.create_server(("{address}", 0))
target = os.environ["IP"] if "{address}" == "0.0.0.0" else "127.0.0.1"
socket.create_connection((target, server.getsockname()[1]), timeout=5)
EOF"""
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    run(cluster, namespace, pod("a", container(script, image="holdfast.dev/trainer:local", env=env)))
    until_phase(cluster, namespace, "a", "Succeeded")
