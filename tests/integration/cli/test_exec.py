"""The older protocol of commands in pods, on a real API server; tests/e2e/commands/test_exec.py has the newer one."""

import pytest
from tests.support.cluster.agent_pods import container, pod, run, until_logged

from holdfast.runtime.apiserver.client import Client
from holdfast_cli.exec.channel import Ends, Outcome, converse
from holdfast_local.cluster import Cluster


# Breaks if v4, which API servers before Kubernetes 1.30 have, loses a stream or the exit code, or if a person does not
# learn that the command cannot see the end of the input.
@pytest.mark.cluster
async def test_the_older_protocol_has_no_end_of_input(cluster: Cluster, namespace: str) -> None:
    run(cluster, namespace, pod("a", container("echo up; sleep 1000")))
    until_logged(cluster, namespace, "a", "up")
    script = "head -c 5; echo trouble >&2; exit 3"
    wanted = {"container": "main", "command": ["sh", "-c", script], "stdin": "true", "stdout": "true", "stderr": "true"}
    to_send, output, errors, said = [b"12345", b""], list[bytes](), list[bytes](), list[str]()

    async def read() -> bytes:
        return to_send.pop(0)

    async def take(data: bytes) -> None:
        output.append(data)

    async def take_error(data: bytes) -> None:
        errors.append(data)

    ends = Ends(read, {1: take, 2: take_error}, said.append)
    path = f"/api/v1/namespaces/{namespace}/pods/a/exec"
    async with (
        await Client.from_kubeconfig(cluster.admin_kubeconfig) as client,
        client.websocket(path, wanted, ["v4.channel.k8s.io"]) as socket,
    ):
        assert await converse(socket, ends) == Outcome(3)
    assert (b"".join(output), b"".join(errors)) == (b"12345", b"trouble\n")
    assert ["needs Kubernetes 1.30" in words for words in said] == [True]
