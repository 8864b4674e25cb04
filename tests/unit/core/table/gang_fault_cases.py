"""Cases for what may happen to a training on two nodes that trains; rank 1 is on node n2."""

from dataclasses import replace

from tests.support.decisions.snapshots import at, container, node, nodes, pending, tier, verdict
from tests.unit.core.table.gang_cases import HELD, OF_JOB, ONE_REFUSED, REPORT, SHARED, TRAINS, given, two
from tests.unit.core.table.row_cases import ACQUIRING, DRAINING, INTENDED, QUOTA, RUNNING, SPOT_ITN, STARTING, Case

from holdfast.api.attempt import EndKind
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.observe.verdict import parse_verdict

RAISED = verdict("failed", "UserException", message="ValueError: bad batch", peer=False)
BY_PEER = verdict("failed", "UserException", message="Connection reset by peer", peer=True)
NO_MEMORY = replace(OF_JOB[1], phase="Failed",
                    trainer=replace(container(ended=True, exit_code=137), reason="OOMKilled"))  # fmt: skip
RESTARTS = two(2, ACQUIRING, members=SHARED, created_at=at(-60), inherited_at=at(-60), acquire_deadline=at(-1))
SPARE = pending(2, name="vit-2-1", uid="u-vit-2-1", rank=1)
ON_DEDICATED = TRAINS.model_copy(update={"tier": tier("dedicated")})
BOTH_WAIT = (
    pending(1, name="vit-1-0", uid="u-vit-1-0", rank=0),
    pending(1, name="vit-1-1", uid="u-vit-1-1", rank=1, deleted_at=at(-30)),
)
PULLS = replace(OF_JOB[0], trainer=container(waiting="ContainerCreating"))
LATE = two(1, STARTING, scheduled_at=at(-120))
DEDICATED = nodes(*(node(name, labels={"tier": "dedicated"}) for name in ("n1", "n2")))


def told(*verdicts: str) -> dict[str, LauncherView]:
    """What the launchers told of the programs of attempt 1, by rank; an empty verdict means that it runs."""
    pairs = zip(OF_JOB, (*verdicts, "", "")[:2], strict=True)
    return {
        one.uid: LauncherView(1, bool(said), at(-1), 30001, parse_verdict(said), at(-2) if said else None)
        for one, said in pairs
    }


def trains(*pods: PodView, suspended: bool = False, **changes) -> Snapshot:
    """Both programs train, and rank 0 reports."""
    found = given(TRAINS, *(pods or OF_JOB), **{"reports": [REPORT], "members": told(), **changes})
    spec = found.job.spec.model_copy(update={"suspend": suspended})
    return replace(found, job=found.job.model_copy(update={"spec": spec}))


CASES = (
    Case("the program of one rank raises", trains(members=told("", RAISED)), ("ended", "create", "placed"),
         {"state": STARTING, "attempt": 2, "end": (1, EndKind.FAILURE, "UserException"), "counts": (0, 0, 1),
          "created": [], "deleted": []}),
    Case("one raises, and the other one has lost its peer", trains(members=told(BY_PEER, RAISED)),
         ("ended", "create", "placed", "met", "started"),
         {"state": RUNNING, "attempt": 2, "end": (1, EndKind.FAILURE, "UserException"), "counts": (0, 0, 1),
          "created": [], "deleted": []}),
    Case("a program has lost its peer, of which nothing is known yet", trains(members=told(BY_PEER)), (),
         {"state": RUNNING, "counts": (0, 0, 0)}),
    Case("the pod of one rank is gone", trains(OF_JOB[0]), ("pod gone", "create"),
         {"state": ACQUIRING, "attempt": 2, "end": (1, EndKind.INTERRUPTION, "PodGone"), "counts": (1, 0, 0),
          "created": [2], "deleted": []}),
    Case("the node of one rank is gone", trains(cluster=nodes(without=("n2",))), ("node gone", "create"),
         {"state": ACQUIRING, "attempt": 2, "end": (1, EndKind.INTERRUPTION, "NodeGone"), "counts": (1, 0, 0),
          "created": [2], "deleted": [("u-vit-1-1", None)]}),
    Case("a notice for one node", trains(cluster=nodes(node("n2", taints=(SPOT_ITN,)))), ("departs", "create beside"),
         {"state": RUNNING, "follows": (ACQUIRING, "spot", 1), "created": [2], "deleted": [],
          "orders": [("checkpoint", 1)]}),
    Case("a node is NotReady for 20 s, and its launcher is heard",
         trains(cluster=nodes(node("n2", ready=False, ready_changed_at=at(-20)))), (),
         {"state": RUNNING, "attempt": 1, "counts": (0, 0, 0), "created": []}),
    Case("a node is NotReady for long, and nothing is heard",
         trains(cluster=nodes(node("n2", ready=False, ready_changed_at=at(-200))), members={}, reports=[]),
         ("node silent", "create"),
         {"state": ACQUIRING, "attempt": 2, "end": (1, EndKind.INTERRUPTION, "NodeSilent"), "counts": (1, 0, 0),
          "created": [2], "avoid": ("n2",)}),
    Case("no node for the new member in time", given(RESTARTS, OF_JOB[0], SPARE), ("no node in time",),
         {"state": INTENDED, "attempt": 3, "tier": "dedicated", "counts": (0, 0, 0),
          "deleted": [("u-vit-1-0", None), ("u-vit-2-1", None)]}),
    Case("a better tier is back", given(ON_DEDICATED, *OF_JOB, reports=[REPORT], members=told(), cluster=DEDICATED),
         ("another tier", "create beside"),
         {"state": RUNNING, "follows": (ACQUIRING, "spot", 1), "created": [2, 2], "deleted": []}),
    Case("suspended", trains(suspended=True), ("suspend",),
         {"state": DRAINING, "attempt": 1, "orders": [("drain", 1)], "deleted": [], "created": []}),
    Case("the memory of one member runs out", trains(OF_JOB[0], NO_MEMORY), ("ended", "create"),
         {"state": ACQUIRING, "attempt": 2, "end": (1, EndKind.FAILURE, "OutOfMemory"), "counts": (0, 0, 1),
          "created": [2], "deleted": []}),
    Case("somebody deletes the second of two pods that wait", given(HELD, *BOTH_WAIT), ("pending pod deleted",),
         {"state": INTENDED, "attempt": 2, "released": ["u-vit-1-1"], "events": ["PodReplaced"]}),
    Case("the image of the second is refused while the first one is pulled", given(LATE, PULLS, ONE_REFUSED[1]),
         ("bad container",),
         {"attempt": 2, "end": (1, EndKind.INTERRUPTION, "ErrImagePull"), "deleted": [("u-vit-1-1", None)]}),
    Case("a quota refuses the second pod",
         given(HELD.model_copy(update={"raised_at": at(-5), "created_at": at(-5)}), OF_JOB[0], refusal=QUOTA),
         ("pod refused",), {"state": INTENDED, "attempt": 1, "retry": at(1), "deleted": [], "counts": (0, 0, 0)}),
    Case("a quota refuses the second pod for too long", given(HELD, OF_JOB[0], refusal=QUOTA),
         ("pod refused", "part given back"),
         {"state": INTENDED, "attempt": 2, "deleted": [("u-vit-1-0", None)], "counts": (0, 0, 0)}),
)  # fmt: skip
