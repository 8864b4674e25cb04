"""The pods of a training on several nodes, as a table with one row for each rank."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.text import Text

from holdfast.api import names
from holdfast.api.attempt import Attempt
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import parse_time
from holdfast.core.observe.members import is_member
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting

COLUMNS = (
    Column("RANK", right=True),
    Column("POD", loose=True),
    Column("NODE", rank=1),
    Column("SINCE ATTEMPT", rank=3, right=True),
    Column("STATE"),
    Column("AGE", rank=2, right=True),
)
RUNS = "runs"


class Pods(NamedTuple):
    """The pods of a job. `silent`: since when the node of a pod that runs has been silent, by UID of the pod."""

    views: list[PodView]
    silent: dict[str, datetime]


async def read_pods(client: Client, job: TrainingJob) -> Pods:
    """The pods of a job, as far as the user may read them. Raises ApiError."""
    path = f"/api/v1/namespaces/{job.metadata.namespace}/pods"
    items, _ = await client.list_all(path, {"labelSelector": f"{names.LABEL_JOB_UID}={job.metadata.uid}"})
    return parse_pods(items)


def parse_pods(items: Iterable[Mapping[str, Any]]) -> Pods:
    """Those that Holdfast made.

    For a pod on a silent node, Kubernetes sets Ready to False and keeps the last container states, which are ready.
    """
    views, silent = [], {}
    for raw in items:
        if (view := PodView.parse(raw)) is None:
            continue
        views.append(view)
        conditions = {one["type"]: one for one in raw["status"].get("conditions") or ()}
        ready, containers = (conditions.get(name) or {} for name in ("Ready", "ContainersReady"))
        if (ready.get("status"), containers.get("status")) == ("False", "True") and ready.get("lastTransitionTime"):
            silent[view.uid] = parse_time(ready["lastTransitionTime"])
    return Pods(views, silent)


def table(job: TrainingJob, pods: Pods, now: datetime) -> Fitting:
    """A row for each pod of the current attempt and of its successor, by rank; a pod that works for both once.

    While there is no attempt, as after the job's end, a row for the newest pod of each rank.
    """
    return Fitting(COLUMNS, [_row(pod, now, state) for pod, state in _members(job, pods, now)])


def to_objects(job: TrainingJob, pods: Pods, now: datetime) -> list[dict[str, Any]]:
    """The rows of the table for programs."""
    return [
        {"rank": pod.rank, "pod": pod.name, "node": pod.node, "attempt": pod.attempt, "state": state[0]}
        for pod, state in _members(job, pods, now)
    ]


def _members(job: TrainingJob, pods: Pods, now: datetime) -> list[tuple[PodView, tuple[str, str]]]:
    """The pods of the table, and the state of each."""
    attempts = [attempt for attempt in (job.status.current, job.status.successor) if attempt]
    mine = [pod for pod in pods.views if any(is_member(attempt, pod) for attempt in attempts)]
    if not attempts:
        mine = list({pod.rank: pod for pod in sorted(pods.views, key=lambda pod: pod.attempt)}.values())
    ordered = sorted(mine, key=lambda pod: (pod.rank, pod.attempt))
    slow = {one.pod: one for attempt in attempts for one in reversed(attempt.slow)}
    states: list[tuple[str, str]] = []
    for pod in ordered:
        state = _state(pod, pods.silent.get(pod.uid), now, has_program=_has_program(attempts, pod))
        one = slow.get(pod.rank)
        if one is not None and one.node == pod.node and state[0] == RUNS:
            state = (f"runs; rank {one.rank} works {one.times} times as long as the others", "yellow")
        states.append(state)
    return list(zip(ordered, states, strict=True))


def _has_program(attempts: Sequence[Attempt], pod: PodView) -> bool:
    """False if the program of the pod starts once the pods of all ranks are ready."""
    works_for = next((attempt for attempt in attempts if is_member(attempt, pod)), None)
    return works_for is None or works_for.nodes == 1 or works_for.world is not None


def _row(pod: PodView, now: datetime, state: tuple[str, str]) -> list[Text]:
    return [
        Text(str(pod.rank)),
        Text(pod.name),
        Text(pod.node or formats.NOTHING),
        Text(str(pod.attempt)),
        Text(*state),
        Text(formats.span(now - pod.created_at) if pod.created_at else formats.NOTHING),
    ]


def _state(pod: PodView, silent: datetime | None, now: datetime, *, has_program: bool) -> tuple[str, str]:
    """What the pod does, and the style of these words."""
    if pod.ended:
        return f"ended ({pod.reason or pod.phase})", "dim"
    if pod.deleted_at:
        return "is being deleted", "yellow"
    if pod.node is None:
        return f"waits for a node ({pod.unscheduled_reason or pod.phase})", "yellow"
    if silent is not None:
        return f"its node has been silent for {formats.span(now - silent)}", "red"
    if pod.trainer is not None and pod.trainer.running:
        return (RUNS, "green") if has_program else ("waits for the other nodes", "yellow")
    return f"starts ({pod.trainer.waiting if pod.trainer and pod.trainer.waiting else pod.phase})", "cyan"
