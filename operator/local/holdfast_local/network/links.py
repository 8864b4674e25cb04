"""Making and removing an isolated network with iproute2."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from holdfast_local.agent.config import INTERFACE
from holdfast_local.errors import ConfigError, StartError
from holdfast_local.locking import exclusive
from holdfast_local.network.plan import NetworkPlan

NAMESPACES = Path("/var/run/netns")  # where `ip netns` keeps them
_INTERFACES = Path("/sys/class/net")
_LOCK = Path("/run/holdfast-network.lock")
_TIMEOUT = 60.0  # seconds


def check_possible() -> None:
    """Raise ConfigError, which says what is missing, if an isolated network cannot be made here by this user."""
    missing = []
    if sys.platform != "linux":
        missing.append("Linux")
    elif os.geteuid() != 0:
        missing.append(f"root (this is user {os.geteuid()})")
    if shutil.which("ip") is None:
        missing.append("the program `ip` (package iproute2)")
    if missing:
        raise ConfigError(f"--network isolated needs {' and '.join(missing)}; without it, use --network shared")
    try:
        _try_out()
    except StartError as error:
        raise ConfigError(f"--network isolated cannot be made here: {error}; otherwise use --network shared") from error


def _try_out() -> None:
    """Make a namespace with a bridge, and remove it: root in a container may lack the right to do so."""
    namespace = f"hf-try-{os.getpid()}"
    _ip("netns", "add", namespace)
    try:
        _ip("-n", namespace, "link", "add", "bridge", "type", "bridge")
    finally:
        _ip("netns", "delete", namespace)


@contextmanager
def choosing() -> Iterator[list[IPv4Network]]:
    """The networks that this machine uses. Until the end of the block no other cluster chooses its range."""
    with exclusive(_LOCK):
        yield used_networks(json.loads(_ip("-json", "-4", "route", "show", "table", "all") or "[]"))


def used_networks(routes: Sequence[dict[str, object]]) -> list[IPv4Network]:
    """The targets of routes, as `ip -json route` lists them, but for those to everywhere."""
    targets = (str(route.get("dst", "default")) for route in routes)
    return [IPv4Network(target, strict=False) for target in targets if target not in ("default", "0.0.0.0/0")]


def make(plan: NetworkPlan) -> None:
    """Make the namespaces, the bridge, and the interfaces. Raises StartError with the words of `ip`."""
    for namespace in plan.namespaces:
        _ip("netns", "add", namespace)
    bridge = ["link set lo up", "link add bridge type bridge", "link set bridge up"]
    for node in plan.nodes.values():
        bridge.append(f"link add {node.link} type veth peer name {INTERFACE} netns {node.namespace}")
        bridge.append(f"link set {node.link} master bridge up")
    _batch(plan.bridge, bridge)
    _ip("link", "add", plan.link, "type", "veth", "peer", "name", "machine", "netns", plan.bridge)
    _ip("-n", plan.bridge, "link", "set", "machine", "master", "bridge", "up")
    _ip("address", "add", f"{plan.address}/{plan.subnet.prefixlen}", "dev", plan.link)
    _ip("link", "set", plan.link, "up")
    for node in plan.nodes.values():
        commands = [
            "link set lo up",
            f"address add {node.address}/{node.prefix} dev {INTERFACE}",
            f"link set {INTERFACE} up",
            f"route add local {node.pods} dev lo",  # every address of the range belongs to the node
        ]
        _batch(node.namespace, commands)


def remove(plan: NetworkPlan) -> None:
    """Remove what there is of the network; none of it may be there. The processes in it must have ended."""
    if (_INTERFACES / plan.link).exists():
        _ip("link", "delete", plan.link)
    for namespace in plan.namespaces:
        if (NAMESPACES / namespace).exists():
            _ip("netns", "delete", namespace)


def _batch(namespace: str, commands: Sequence[str]) -> None:
    _ip("-n", namespace, "-batch", "-", stdin="\n".join(commands) + "\n")


def _ip(*args: str, stdin: str | None = None) -> str:
    try:
        done = subprocess.run(["ip", *args], input=stdin, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"`ip {' '.join(args)}` cannot be run: {error}") from error
    if done.returncode != 0:
        raise StartError(
            f"`ip {' '.join(args)}` failed: {done.stderr.strip()}; a container needs CAP_NET_ADMIN and CAP_SYS_ADMIN"
        )
    return done.stdout
