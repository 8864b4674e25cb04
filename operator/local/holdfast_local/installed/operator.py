"""The operator as a part of a local cluster: its command line, its ports, and when it counts as ready."""

import http.client
import json
import sys
from collections.abc import Sequence
from typing import Final

from holdfast.api import rbac
from holdfast_local import access, bringup, monitoring
from holdfast_local.access import OPERATOR_NAMESPACE
from holdfast_local.config import OPERATOR
from holdfast_local.errors import PortTakenError
from holdfast_local.layout import Layout
from holdfast_local.ports import HOST, free
from holdfast_local.processes import ProcessRecord, clean_environment
from holdfast_local.state import ClusterState

# Names of its ports in the state of the cluster. The first, to which pods report, is the one that `status` shows.
HEALTH: Final = "operator-health"
METRICS: Final = "operator-metrics"
PORTS: Final = (OPERATOR, HEALTH, METRICS)

_PORT_ATTEMPTS: Final = 3
_TOKEN_HOURS: Final = 365 * 24  # as long as the certificates of the cluster
_ANSWER_SECONDS: Final = 5.0
# Nothing starts an operator again that lost its Lease because the machine stood still: so it may stand still for long.
# Nobody waits for the Lease of one that has ended: it is deleted before the next start.
_LEASE: Final = ("--lease-duration", "600", "--lease-renew", "5")


def start(state: ClusterState, flags: Sequence[str] = ()) -> None:
    """Start the operator, again as it was if it has run before, and wait until it leads and answers pods.

    `flags` are further flags of `holdfast-operator run`, for its first start.

    Raises:
        StartError: it ended or was not ready in time; with the tail of its log.
        LocalError: the API server refused something.
    """
    layout = Layout(state.config.root)
    arguments = ["delete", "lease", rbac.LEASE, f"--namespace={OPERATOR_NAMESPACE}", "--ignore-not-found"]
    access.kubectl(layout, arguments, None, 60)
    record = state.processes.get(OPERATOR) or _new(state, flags)
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        if state.config.prometheus:
            targets = (f"{HOST}:{state.ports[METRICS]}", *state.config.scrape)
            monitoring.write_targets(layout, targets)
        bringup.start(state, record)
        try:
            wait_ready(state)
        except PortTakenError:
            if attempt == _PORT_ATTEMPTS:
                raise
            # Pods that run still report to the old address. They train on; what starts later has the new one.
            record = _elsewhere(state, record)
        else:
            return


def wait_ready(state: ClusterState) -> None:
    """Wait until the operator leads and answers pods. Raises StartError, with the tail of its log."""
    bringup.wait_until(state, OPERATOR, lambda: leads(state.ports[HEALTH]))


def _new(state: ClusterState, flags: Sequence[str]) -> ProcessRecord:
    """The operator with the rights that the chart gives it, at ports that are free now.

    It gets no variable of the user: HOLDFAST_* variables are settings. `-P`: no modules of the working directory.
    """
    layout = Layout(state.config.root)
    account = (OPERATOR_NAMESPACE, rbac.NAME)
    kubeconfig = access.kubeconfig_for(layout, state.server, *account, hours=_TOKEN_HOURS)
    state.ports |= free(PORTS)
    address = f"{state.address}:{state.ports[OPERATOR]}"
    argv = [
        *(sys.executable, "-P", "-m", "holdfast.runtime", "run"),
        *("--kubeconfig", str(kubeconfig), "--namespace", OPERATOR_NAMESPACE),
        *("--progress-bind", address, "--progress-url", f"https://{address}"),
        *("--health-bind", f"{HOST}:{state.ports[HEALTH]}", "--metrics-bind", f"{HOST}:{state.ports[METRICS]}"),
        *(("--metrics-auth", "off") if state.config.prometheus else ()),
        *(*_LEASE, *flags),
    ]
    return ProcessRecord(name=OPERATOR, argv=argv, env=clean_environment(), log=layout.log(OPERATOR))


def _elsewhere(state: ClusterState, record: ProcessRecord) -> ProcessRecord:
    """The same operator, at other ports."""
    fresh, argv = free(PORTS), list(record.argv)
    for name, port in fresh.items():
        before = f":{state.ports[name]}"
        argv = [word.removesuffix(before) + f":{port}" if word.endswith(before) else word for word in argv]
    state.ports |= fresh
    return record.model_copy(update={"argv": argv})


def leads(port: int) -> bool:
    """Whether the operator with this health port leads, and answers pods."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        health = json.load(connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return bool(health["leading"] and health["serving"])
