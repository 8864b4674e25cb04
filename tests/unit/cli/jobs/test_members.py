"""The pods of several nodes by rank."""

from datetime import datetime

import pytest
from rich.console import Console
from tests.support.decisions.snapshots import at, attempt, container, job, pending, placed, pod, status

from holdfast.api.attempt import AttemptState, MemberGroup, SlowRank, World
from holdfast_cli.jobs import members

NOW = at(0)
GROUPS = (MemberGroup(born=1, ranks="0-1,3"), MemberGroup(born=2, ranks="2"))
CURRENT = attempt(2, AttemptState.STARTING, nodes=4, members=GROUPS)
WORLD = World(address="10.0.0.1", port=30001)
PODS = [
    pending(2, rank=2, name="vit-2-2"),
    pod(1, rank=0, name="vit-1-0", uid="u-0"),
    placed(1, rank=1, name="vit-1-1", node="n2"),
    pod(1, rank=2, name="vit-1-2", node="n3"),
    pod(1, rank=3, name="vit-1-3", node="n4", deleted_at=at(30)),
]


def shown(world: World | None = WORLD, silent: dict[str, datetime] | None = None) -> list[str]:
    console = Console(width=120, force_terminal=False)
    current = CURRENT.model_copy(update={"world": world})
    with console.capture() as captured:
        console.print(members.table(job(status(current)), members.Pods(PODS, silent or {}), NOW))
    return [" ".join(line.split()) for line in captured.get().splitlines() if line.strip()]


def test_each_rank_has_the_pod_that_works_for_the_attempt():
    header, _, *rows = shown()
    assert header == "RANK POD NODE SINCE ATTEMPT STATE AGE"
    assert [row.split()[:3] for row in rows] == [
        ["0", "vit-1-0", "n1"],
        ["1", "vit-1-1", "n2"],
        ["2", "vit-2-2", "-"],
        ["3", "vit-1-3", "n4"],
    ]
    assert [state in row for state, row in zip(("runs", "PodInitializing", "waits", "deleted"), rows, strict=True)] == [
        True
    ] * 4


def test_a_pod_whose_program_waits_for_the_others_does_not_run():
    """Breaks if people look for the fault in three pods that only wait for the fourth one."""
    assert ["runs" in row for row in shown()[2:]] == [True, False, False, False]
    assert ["waits for the other nodes" in row for row in shown(world=None)[2:]] == [True, False, False, False]


def test_a_pod_on_a_silent_node_is_not_said_to_run():
    """Breaks if people look for a fault anywhere but on the node that does not answer."""
    rows = shown(silent={"u-0": at(-90)})[2:]
    assert "its node has been silent for 1m" in rows[0]
    assert "silent" not in "".join(rows[1:])


def test_a_pod_with_a_slow_rank_says_so():
    """Breaks if people look for the reason of a slow training on the nodes that wait."""
    slow = CURRENT.model_copy(update={"world": WORLD, "slow": (SlowRank(rank=2, pod=0, node="n1", times="1.80"),)})
    console = Console(width=160, force_terminal=False)
    with console.capture() as captured:
        console.print(members.table(job(status(slow)), members.Pods(PODS, {}), NOW))
    assert captured.get().count("runs; rank 2 works 1.80 times as long as the others") == 1


@pytest.mark.parametrize(
    ("ready", "containers", "is_silent"),
    [("True", "True", False), ("False", "True", True), ("False", "False", False), ("False", None, False)],
)
def test_a_node_is_silent_if_it_has_not_said_why_its_pod_is_not_ready(
    ready: str, containers: str | None, is_silent: bool
):
    """Breaks if an injected container that is not ready is taken for a silent node."""
    labels = {
        "holdfast.dev/job": "vit",
        "holdfast.dev/job-uid": "u",
        "holdfast.dev/attempt": "1",
        "holdfast.dev/rank": "0",
    }
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    conditions += [{"type": "ContainersReady", "status": containers}] if containers else []
    metadata = {"name": "vit-1-0", "namespace": "team", "uid": "p", "resourceVersion": "1", "labels": labels}
    found = members.parse_pods([{"metadata": metadata, "status": {"phase": "Running", "conditions": conditions}}])
    assert [one.uid for one in found.views] == ["p"]
    assert bool(found.silent) is is_silent


def test_an_ended_pod_says_why():
    gone = pod(1, rank=0, name="vit-1-0", phase="Failed", reason="Evicted", trainer=container(ended=True))
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(members.table(job(status(CURRENT)), members.Pods([gone], {}), NOW))
    assert "ended (Evicted)" in captured.get()


def test_after_the_end_the_newest_pod_of_each_rank_is_shown():
    over = [pod(number, rank=rank, name=f"vit-{number}-{rank}", trainer=container(ended=True), phase="Succeeded")
            for number, rank in ((2, 1), (1, 0), (1, 1))]  # fmt: skip
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(members.table(job(status()), members.Pods(over, {}), NOW))
    assert [name in captured.get() for name in ("vit-1-0", "vit-2-1", "vit-1-1")] == [True, True, False]
