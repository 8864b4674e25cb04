"""A real Kubernetes control plane, S3 server and simulated nodes on one machine, without containers.

    cluster = up(ClusterConfig())
    cluster.kubectl("get", "nodes")
    cluster.down()

A cluster outlives the process that started it: `Cluster.load(root)` finds it again.
"""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from filelock import Timeout

from holdfast_local import access, bringup, control, monitoring, processes, toolchain
from holdfast_local.agent.container import procfs
from holdfast_local.agent.container.process import agent_mark
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.errors import AlreadyUpError, LocalError, NotUpError, PortTakenError, StartError
from holdfast_local.layout import Layout
from holdfast_local.locking import exclusive
from holdfast_local.network import links
from holdfast_local.network.plan import NetworkPlan, make_plan
from holdfast_local.processes import ProcessState
from holdfast_local.progress_bar import Report, Silent
from holdfast_local.state import ClusterState, S3Access
from holdfast_local.status import ClusterStatus, read_status

_PORT_ATTEMPTS = 3
_KILL_ROUNDS = 200
_KILL_PAUSE = 0.02  # seconds
_AGENT_GRACE = 20.0  # seconds: the agent ends the processes of every pod


class Cluster:
    """A cluster that is up (or was, and crashed)."""

    def __init__(self, state: ClusterState) -> None:
        self._state, self._layout = state, Layout(state.config.root)
        self.config = state.config  # what it was started with
        self.root = self._layout.root  # the folder of all its files
        self.server = state.server  # the URL of the API server
        self.ports = dict(state.ports)  # the port of each part, by name
        self.address = state.address  # of this machine, for pods and itself: for servers that pods use
        self.ca_cert = self._layout.pki / "ca.crt"  # the CA of every certificate in the cluster
        self.admin_kubeconfig = self._layout.admin_kubeconfig  # may do everything
        self.audit_log = self._layout.audit_log if state.config.audit else None  # one JSON line an API request
        self.bin = self._layout.bin  # a folder for PATH with kubectl in it

    @classmethod
    def load(cls, root: Path) -> "Cluster":
        """The cluster whose state is in `root`.

        Raises:
            NotUpError: there is none.
            LocalError: its state cannot be read.
        """
        return cls(ClusterState.load(root))

    @property
    def tools(self) -> dict[str, Path]:
        """The path of each tool, names of the multi-call binary included."""
        found = dict(self._state.tools)
        links = toolchain.TOOLS["kubernetes"].links
        return found | {name: found["kubernetes"].with_name(name) for name in links}

    @property
    def s3(self) -> S3Access:
        """How to reach the S3 server. Raises LocalError if the cluster was started without."""
        if self._state.s3 is None:
            raise LocalError("this cluster was started without an S3 server")
        return self._state.s3

    @property
    def prometheus(self) -> str:
        """The URL of Prometheus' API. Raises LocalError if the cluster was started without."""
        if not self._state.prometheus:
            raise LocalError("this cluster was started without Prometheus: `holdfast local up --with prometheus`")
        return self._state.prometheus

    def scrape(self, *targets: str) -> None:
        """Let Prometheus scrape the operators that serve http://TARGET/metrics, each `host:port`, and no others.

        Raises LocalError if the cluster was started without Prometheus.
        """
        if self.prometheus:
            monitoring.write_targets(self._layout, targets)

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl as administrator and return its standard output. Raises LocalError with its standard error."""
        return access.kubectl(self._layout, args, stdin, timeout)

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with a token of the service account, valid for 24 hours, and return its path."""
        return access.kubeconfig_for(self._layout, self.server, namespace, service_account)

    def install(self) -> None:
        """Install what the operator needs: its API, namespace, service account and rights. Can be repeated."""
        access.install(self._layout)

    def status(self) -> ClusterStatus:
        """What every part does right now."""
        return read_status(self._refreshed())

    def environment(self) -> dict[str, str]:
        """Variables for a shell: KUBECONFIG, `address`, the S3 settings. For kubectl, put `bin` on PATH."""
        variables = {"KUBECONFIG": str(self.admin_kubeconfig), "HOLDFAST_LOCAL_ADDRESS": self.address}
        if self._state.s3:
            variables |= {
                "AWS_ACCESS_KEY_ID": self.s3.access_key,
                "AWS_SECRET_ACCESS_KEY": self.s3.secret_key,
                "AWS_ENDPOINT_URL_S3": self.s3.endpoint,
                "AWS_REGION": self.s3.region,
            }
        return variables

    def reclaim(
        self, node: str, notice: timedelta = timedelta(seconds=30), *, kill_after: timedelta | None = None
    ) -> None:
        """Take a node away as a cloud does: taint now, SIGTERM after `notice`, SIGKILL, then the Node object is gone.

        `kill_after` is the time from SIGTERM to SIGKILL, None for what the cluster is set to. Returns as soon as the
        notice is given. Raises ControlError.
        """
        more = {} if kill_after is None else {"killAfterSeconds": kill_after.total_seconds()}
        control.order(self._layout, "reclaim", node, noticeSeconds=notice.total_seconds(), **more)

    def crash(self, node: str) -> None:
        """Kill every process on a node and silence it; its Node object stays. Raises ControlError."""
        control.order(self._layout, "crash", node)

    def partition(self, node: str) -> None:
        """Cut a node off from everything, as a broken cable does; its processes run on. Needs an isolated network.

        Raises ControlError.
        """
        control.order(self._layout, "partition", node)

    def silence(self, node: str) -> None:
        """Stop a node's heartbeats and reports; its processes run on and reach everything. Raises ControlError."""
        control.order(self._layout, "silence", node)

    def heal(self, node: str) -> None:
        """End a partition or a silence; what happened on the node is reported then. Raises ControlError."""
        control.order(self._layout, "heal", node)

    def restore(self, node: str) -> None:
        """Bring a node that is not up back, empty. Raises ControlError."""
        control.order(self._layout, "restore", node)

    def part(self, name: str) -> processes.ProcessRecord:
        """The process of a part, as it was started last. Raises LocalError if the cluster has no such part."""
        parts = self._refreshed().processes
        if name not in parts:
            raise LocalError(f"this cluster has no part {name!r}: it has {', '.join(parts)}")
        return parts[name]

    def kill_component(self, name: str) -> None:
        """SIGKILL a part and wait until it is gone. It stays down until `start_component`."""
        processes.end([self.part(name)], grace=0)

    def start_component(self, name: str) -> None:
        """Start a part that has ended, as it was started first, and wait until it is ready. No-op if it runs."""
        with exclusive(self._layout.lock):
            self._state = ClusterState.load(self.root)
            if processes.state(self.part(name)) is ProcessState.DEAD:
                bringup.start_part(self._state, name)

    def pause_component(self, name: str) -> None:
        """SIGSTOP a part: it keeps its connections and answers nothing."""
        self._signal(name, signal.SIGSTOP)

    def resume_component(self, name: str) -> None:
        """Let a paused part continue."""
        self._signal(name, signal.SIGCONT)

    def down(self, report: Report | None = None) -> None:
        """End every process that was started, and remove every file. Safe to repeat, also after a crash."""
        with _root_lock(self.root, wait=True), (report or Silent()).step("Stopping the local cluster"):
            try:
                state = ClusterState.load(self.root)
            except NotUpError:
                return
            _end(state)
            _remove_files(self._layout)

    def _refreshed(self) -> ClusterState:
        self._state = ClusterState.load(self.root)
        return self._state

    def _signal(self, name: str, number: signal.Signals) -> None:
        if not processes.send(self.part(name), number):
            raise LocalError(f"{name} is not running: start it first")


def up(config: ClusterConfig, report: Report | None = None) -> Cluster:
    """Build the tools if that was not done yet, start every part, and return when all of them are ready.

    If anything fails, every process that was started is ended and every file removed.

    Raises:
        AlreadyUpError: there is a cluster in `config.root`; it is left as it is.
        ConfigError: an isolated network cannot be made here by this user.
        ToolError: a tool cannot be built.
        StartError: a part did not become ready; the message ends with the tail of its log.
        LocalError: the folder cannot be used.
    """
    report = report or Silent()
    _refuse_second(config.root)
    if config.network == "isolated":
        links.check_possible()
    if config.prometheus:
        monitoring.check_possible()
    wanted = {"kubernetes": True, "versitygw": config.s3, "prometheus": config.prometheus}
    needed = [toolchain.TOOLS[name] for name, is_needed in wanted.items() if is_needed]
    built = toolchain.build_all(needed, report)
    tools = {tool.name: str(binary) for tool, binary in zip(needed, built, strict=True)}
    try:
        with _root_lock(config.root, wait=False):
            _refuse_second(config.root)
            try:
                return _start(config, tools, report)
            except BaseException:
                _remove_files(Layout(config.root))
                raise
    except OSError as error:
        raise LocalError(f"{config.root} cannot be used: {error.strerror or error}") from error


@contextmanager
def changing(root: Path) -> Iterator[ClusterState]:
    """The state of the cluster in `root`, for a change: waits for commands at work there, and lets later ones wait.

    Raises NotUpError if there is no cluster.
    """
    with _root_lock(root, wait=True):
        yield ClusterState.load(root)


def _start(config: ClusterConfig, tools: dict[str, str], report: Report) -> Cluster:
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        state = None
        try:
            with _planned_network(config) as network:
                state = bringup.prepare(config, tools, network)
                if network:
                    links.make(network)
            bringup.start_all(state, report)
            return Cluster(state)
        except BaseException as error:
            if state:
                _end(state, grace=5.0)
            if not isinstance(error, PortTakenError) or config.ports or attempt == _PORT_ATTEMPTS:
                raise
            _remove_files(Layout(config.root))
            report.note("another process took a port in between: trying again with other ports")
    raise StartError("no free ports were found")


@contextmanager
def _planned_network(config: ClusterConfig) -> Iterator[NetworkPlan | None]:
    """The isolated network to make, None for a shared one. Until the block ends no other cluster plans its network."""
    if config.network == "shared":
        yield None
        return
    with links.choosing() as used:
        yield make_plan(config.root, [node.name for node in config.nodes], used)


def _refuse_second(root: Path) -> None:
    try:
        state = ClusterState.load(root)
    except NotUpError:
        found = [path.name for path in root.iterdir() if path.name != ".lock"] if root.is_dir() else []
        if found:
            hint = "it is not empty and has no local cluster: choose an empty or a new folder"
            raise LocalError(f"{root} cannot be used: {hint} (found {', '.join(sorted(found)[:3])})") from None
        return
    alive = [name for name, record in state.processes.items() if processes.state(record) is not ProcessState.DEAD]
    if not alive:
        raise AlreadyUpError(
            f"{root} has a local cluster that does not run any more. Remove it and its data with "
            "`holdfast local down`, then start a new one"
        )
    raise AlreadyUpError(
        f"a local cluster is already up in {root} ({state.server}). See `holdfast local status`; "
        "end it with `holdfast local down`, or start another one with `--root`"
    )


@contextmanager
def _root_lock(root: Path, *, wait: bool) -> Iterator[None]:
    """Hold the folder's lock; the folder is made if it is missing, and removed again if nothing was put into it."""
    layout = Layout(root)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with exclusive(layout.lock, wait=wait):
            try:
                yield
            finally:
                if list(root.iterdir()) == [layout.lock]:
                    layout.lock.unlink()
                    root.rmdir()
    except Timeout:
        raise AlreadyUpError(f"another `holdfast local` command is at work in {root}: wait for it to end") from None


def _end(state: ClusterState, grace: float = _AGENT_GRACE) -> None:
    """End every process and remove the network.

    The operator goes first: it would answer the end of its pods with new ones. Then the agent, gently: it ends the
    pods. The rest goes at once: nothing of its data is kept.
    """
    agent, operator = state.processes.get("agent"), state.processes.get(OPERATOR)
    if operator:
        processes.end([operator], grace=0)
    if agent:
        processes.end([agent], grace=grace)
        _end_containers(state.config.root)
    processes.end([record for name, record in state.processes.items() if name != "agent"], grace=0)
    if state.network:
        links.remove(state.network)


def _end_containers(root: Path) -> None:
    """End what an agent left that was itself killed: processes that carry the mark of its containers."""
    prefix = agent_mark(root)
    pause = threading.Event()
    for _ in range(_KILL_ROUNDS):
        table = procfs.table()
        marked = [pid for pid in table if (procfs.mark(pid) or "").startswith(prefix)]
        if not marked:
            return
        for pid in procfs.with_descendants(marked, table) - {os.getpid()}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        pause.wait(_KILL_PAUSE)


def _remove_files(layout: Layout) -> None:
    """Remove everything below the root but the lock, the state file last: until then `down` can be repeated."""
    for path in layout.root.iterdir():
        if path in {layout.state, layout.lock}:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    layout.state.unlink(missing_ok=True)
