"""Make sure that a local cluster is up and has Holdfast: start what is missing, and repeat nothing."""

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast_local import access, processes
from holdfast_local.cluster import Cluster, changing, up
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.errors import AlreadyUpError, NotUpError
from holdfast_local.installed import objects, operator
from holdfast_local.layout import Layout, default_root
from holdfast_local.processes import ProcessState
from holdfast_local.progress_bar import LineReport, Report, Silent
from holdfast_local.state import ClusterState


def bring_up(say: Callable[[str], None]) -> Path:
    """Make sure that the local cluster of this user is up, with Holdfast; the kubeconfig of its administrator.

    The first time builds its tools, in minutes. `say` gets lines that tell how far it is. Raises LocalError.

    It is the entry point `cluster` of the group `holdfast.local`: `holdfast_cli` finds it there.
    """
    return ensure(ClusterConfig(root=default_root()), LineReport(say)).admin_kubeconfig


def ensure(config: ClusterConfig, report: Report | None = None) -> Cluster:
    """The cluster in `config.root`, up and with Holdfast.

    A cluster that is up stays as it is, and gets what it lacks: Holdfast, or an operator in place of one that has
    ended. If a new one does not come up with all of it, it is removed again.

    Raises:
        AlreadyUpError: the cluster that is up has other settings, and `config` is not the default one; or one of its
            parts has crashed.
        LocalError: as `up` does.
    """
    report = report or Silent()
    cluster, is_new = _find_or_start(config, report)
    try:
        install(cluster, report)
    except BaseException:
        if is_new:
            cluster.down(report)
        raise
    return cluster


def install(cluster: Cluster, report: Report, flags: Sequence[str] = ()) -> None:
    """Add Holdfast to a cluster, or start its operator again if that has ended. No-op if the operator leads.

    `flags` are further flags of `holdfast-operator run`; they count when Holdfast is added. Raises LocalError.
    """
    with changing(cluster.root) as state:
        record, layout = state.processes.get(OPERATOR), Layout(cluster.root)
        if record is None:
            with report.step("Installing Holdfast"):
                access.install(layout)
                access.apply(layout, objects.manifests(state.s3))
        elif processes.state(record) is not ProcessState.DEAD:
            operator.wait_ready(state)
            return
        else:
            report.note("the operator has ended: starting it again")
        with report.step("Starting the operator"):
            operator.start(state, flags)


def _find_or_start(config: ClusterConfig, report: Report) -> tuple[Cluster, bool]:
    """The cluster, and whether it was started now. Raises as `ensure` does."""
    try:
        ClusterState.load(config.root)
    except NotUpError:
        try:
            return up(config, report), True
        except AlreadyUpError:  # another command was faster, and may still be at work
            report.note("another command starts this cluster: waiting for it")
    with changing(config.root) as state:
        _check(state, config)
        return Cluster(state), False


def _check(state: ClusterState, asked: ClusterConfig) -> None:
    """Raises AlreadyUpError if the cluster is not one to go on with."""
    parts = [name for name in state.processes if name != OPERATOR]
    dead = [name for name in parts if processes.state(state.processes[name]) is ProcessState.DEAD]
    again = "Remove it and its data with `holdfast local down`, then start a new one"
    if state.phase != "ready" or dead == parts:
        raise AlreadyUpError(f"{asked.root} has a local cluster that does not run any more. {again}")
    if dead:
        raise AlreadyUpError(
            f"{', '.join(dead)} of the local cluster in {asked.root} crashed: see `holdfast local status`. {again}"
        )
    fields = type(asked).model_fields
    if asked != ClusterConfig(root=asked.root, scrape=asked.scrape):
        other = [name for name in fields if getattr(asked, name) != getattr(state.config, name)]
        if other:
            raise AlreadyUpError(
                f"a local cluster is already up in {asked.root}, with other settings ({', '.join(other)}). "
                "End it with `holdfast local down`, or start another one with `--root`"
            )
