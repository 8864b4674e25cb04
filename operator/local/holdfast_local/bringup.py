"""Bringing a cluster up: the order of its parts, and when each of them counts as ready."""

import secrets
import socket
import threading
import time
from collections.abc import Callable

from holdfast_local import access, components, monitoring, processes
from holdfast_local.agent.config import AgentConfig
from holdfast_local.config import PORTS, ClusterConfig
from holdfast_local.errors import LocalError, PortTakenError, StartError
from holdfast_local.layout import Layout
from holdfast_local.network.plan import NetworkPlan
from holdfast_local.ports import HOST, answers_ok, free
from holdfast_local.processes import ProcessRecord, ProcessState
from holdfast_local.progress_bar import Report
from holdfast_local.state import ClusterState, S3Access

_POLL = 0.03
_TAIL = 15
_BUILDERS: dict[str, Callable[[ClusterState], ProcessRecord]] = {
    "etcd": components.etcd,
    "kube-apiserver": components.apiserver,
    "kube-controller-manager": components.controller_manager,
    "kube-scheduler": components.scheduler,
    "s3": components.s3,
    "agent": components.agent,
    "prometheus": monitoring.prometheus,
}


def prepare(config: ClusterConfig, tools: dict[str, str], network: NetworkPlan | None = None) -> ClusterState:
    """Make the folders, keys and settings of a new cluster, and choose its ports. Starts nothing.

    Args:
        config: the cluster.
        tools: the path of each tool's binary, by name.
        network: the isolated network that it is going to have; None if its nodes share the network of the machine.

    Raises:
        PortTakenError: a port that the configuration asks for is in use.
    """
    layout = Layout(config.root)
    parts = {"s3": config.s3, "prometheus": config.prometheus}
    ports = free([name for name in PORTS if parts.get(name, True)], config.ports)
    address = network.address if network else HOST
    access = None
    if config.s3:
        endpoint = f"http://{address}:{ports['s3']}"
        access = S3Access(endpoint=endpoint, access_key="holdfast", secret_key=secrets.token_urlsafe(24))
    server = f"https://{address}:{ports['kube-apiserver']}"
    state = ClusterState.model_validate(
        {"config": config, "server": server, "ports": ports, "tools": tools, "s3": access, "network": network}
    )
    state.save()  # first of all: from here on `down` knows that this folder belongs to a cluster, also after a crash
    layout.logs.mkdir(mode=0o700)
    layout.bin.mkdir()
    (layout.bin / "kubectl").symlink_to(state.tools["kubernetes"].with_name("kubectl"))
    components.write_pki(state)
    components.write_settings(layout, config)
    if config.prometheus:
        monitoring.write_settings(layout, config.scrape)
    if config.agent:
        _agent_config(state).save()
    return state


def _agent_config(state: ClusterState) -> AgentConfig:
    pki = Layout(state.config.root).pki
    return AgentConfig(
        root=state.config.root,
        server=state.server,
        ca_cert=pki / "ca.crt",
        client_cert=pki / "agent-client.crt",
        client_key=pki / "agent-client.key",
        kubelet_cert=pki / "agent.crt",
        kubelet_key=pki / "agent.key",
        kubelet_port=state.ports["kubelet"],
        nodes=state.config.nodes,
        images=state.config.images,
        timings=state.config.timings,
        bridge=state.network.bridge if state.network else "",
        networks=state.network.nodes if state.network else {},
    )


def start_all(state: ClusterState, report: Report) -> None:
    """Start every part and wait until all of them are ready. Records each process as soon as it exists.

    Raises:
        StartError: a part ended or did not become ready in time.
        PortTakenError: a part could not get its port.
    """
    config = state.config
    with report.step("Starting the control plane"):
        start_part(state, "etcd", wait=False)
        if config.s3:
            start_part(state, "s3", wait=False)
        if config.prometheus:
            start_part(state, "prometheus", wait=False)
        wait_ready(state, "etcd")
        start_part(state, "kube-apiserver", wait=False)
        if config.s3:
            wait_ready(state, "s3")
            if state.s3 is not None:
                state.s3.client().create_bucket(Bucket=state.s3.bucket)
        wait_ready(state, "kube-apiserver")
        for name in ("kube-controller-manager", "kube-scheduler"):
            start_part(state, name, wait=False)
        if config.agent:
            start_part(state, "agent", wait=False)
        for name in ("kube-controller-manager", "kube-scheduler"):
            wait_ready(state, name)
        _wait_for_accounts(state)
        if config.prometheus:
            wait_ready(state, "prometheus")
    if config.agent:
        with report.step(f"Registering {sum(not node.standby for node in config.nodes)} nodes"):
            wait_ready(state, "agent")
    state.phase = "ready"
    state.save()


def start_part(state: ClusterState, name: str, *, wait: bool = True) -> None:
    """Start one part, record it, and wait until it is ready."""
    start(state, state.processes.get(name) or _BUILDERS[name](state))
    if wait:
        wait_ready(state, name)


def start(state: ClusterState, record: ProcessRecord) -> None:
    """Start a process as a part of the cluster, and record it at once."""
    state.processes[record.name] = processes.start(record)
    state.save()


def wait_ready(state: ClusterState, name: str) -> None:
    """Wait until a part is ready.

    Raises:
        StartError: it ended, or was not ready after the configured time; with the tail of its log.
    """
    ready = _READY[name]
    wait_until(state, name, lambda: ready(state))


def wait_until(state: ClusterState, name: str, ready: Callable[[], bool]) -> None:
    """Wait for a condition that a part brings about. Raises StartError as `wait_ready` does."""
    record, pause = state.processes[name], threading.Event()
    deadline = time.monotonic() + state.config.ready_timeout
    while not ready():
        if processes.state(record) is ProcessState.DEAD:
            raise _ended(record)
        if time.monotonic() > deadline:
            raise StartError(f"{name} was not ready after {state.config.ready_timeout:g} s{_tail(record)}")
        pause.wait(_POLL)


def _ended(record: ProcessRecord) -> StartError:
    tail = _tail(record)
    if "address already in use" in tail or "Address already in use" in tail:
        return PortTakenError(f"another process took the port of {record.name} while it started{tail}")
    return StartError(f"{record.name} ended while it started{tail}")


def _tail(record: ProcessRecord) -> str:
    lines = processes.log_tail(record, _TAIL)
    if not lines:
        return f" (its log {record.log} is empty)"
    return "; the end of its log:\n" + "\n".join(f"  {line}" for line in lines)


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _nodes_ready(state: ClusterState) -> bool:
    if not Layout(state.config.root).agent_socket.exists():
        return False
    nodes = [f"node/{node.name}" for node in state.config.nodes if not node.standby]
    return not nodes or _is_met(state, "--for=condition=Ready", *nodes)


def _wait_for_accounts(state: ClusterState) -> None:
    """Pods are refused until the controller manager has made the namespace's default service account."""
    wait_until(state, "kube-controller-manager", lambda: _is_met(state, "--for=create", "serviceaccount/default"))


def _is_met(state: ClusterState, *condition: str) -> bool:
    """True if `kubectl wait` sees the condition within a second."""
    try:
        access.kubectl(Layout(state.config.root), ["wait", "--timeout=1s", *condition], None, timeout=10)
    except LocalError:
        return False
    return True


_READY: dict[str, Callable[[ClusterState], bool]] = {
    "etcd": lambda state: _accepts(state.ports["etcd"]),
    "kube-apiserver": lambda state: answers_ok(state.ports["kube-apiserver"], "/readyz", tls=True, host=state.address),
    "kube-controller-manager": lambda state: answers_ok(state.ports["kube-controller-manager"], "/healthz", tls=True),
    "kube-scheduler": lambda state: answers_ok(state.ports["kube-scheduler"], "/healthz", tls=True),
    "s3": lambda state: answers_ok(state.ports["s3"], "/healthz", tls=False, host=state.address),
    "agent": _nodes_ready,
    "prometheus": lambda state: answers_ok(state.ports["prometheus"], "/-/ready", tls=False),
}
