"""Cases for the rows of TABLE about what has happened and what the user set: given, rows that fire, outcome."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.decisions.snapshots import (
    TIERS,
    at,
    attempt,
    created,
    deleted,
    drain,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    released,
    report,
    silent,
    snapshot,
    status,
    stepped,
    stopped,
    verdict,
)

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind
from holdfast.core.observe.snapshot import Refusal, Snapshot

INTENDED, ACQUIRING, STARTING = AttemptState.INTENDED, AttemptState.ACQUIRING, AttemptState.STARTING
RUNNING, DRAINING = AttemptState.RUNNING, AttemptState.DRAINING
IMPENDING = "cloud.google.com/impending-node-termination"
SPOT_ITN = "aws-node-termination-handler/spot-itn"
DONE, DRAINED = verdict("completed", "Exited"), verdict("drained", "SavedAndLeft", step=710)
FENCED = attempt(fenced=True, first_step=500)
QUOTA = Refusal(1, at(-1), 403, "Forbidden", "exceeded quota: gpus")


@dataclass
class Case:
    """`then` is compared with the `outcome` of the decision."""

    name: str
    given: Snapshot
    trace: tuple[str, ...]
    then: dict[str, Any] = field(default_factory=dict)


def outcome(decision) -> dict[str, Any]:
    """The values that a case may compare."""
    now, history = decision.status, decision.status.history
    current, successor = now.current, now.successor
    return {
        "state": current.state if current else None,
        "attempt": now.attempt,
        "tier": current.tier.name if current else None,
        "successor": successor.number if successor else None,
        "follows": (successor.state, successor.tier.name, successor.predecessor) if successor else None,
        "departs": current.departure.deadline if current and current.departure else None,
        "predecessor": current.predecessor if current else None,
        "go": [one.go for one in (current, successor) if one and one.go is not None],
        "phase": now.phase,
        "reason": now.reason,
        "end": (history[-1].number, history[-1].kind, history[-1].reason) if history else None,
        "estimated": history[-1].estimated if history else None,
        "counts": (now.restarts.losses, now.restarts.infrastructure, now.restarts.failures),
        "created": created(decision),
        "deleted": deleted(decision),
        "released": released(decision),
        "orders": [(order.type, order.id) for order in decision.orders],
        "events": [event.reason for event in decision.events],
        "wake": decision.requeue_at,
        "avoid": current.avoid_nodes if current else None,
        "deadline": current.drain.deadline if current and current.drain else None,
        "retry": current.retry_at if current else None,
    }


def suspending(current=None, **changes) -> Any:
    """A job with spec.suspend."""
    return job(status(current, **changes), suspend=True)


def asked(annotation: str, value: str, current=None, **changes) -> Any:
    """A job with a request."""
    return job(status(current, **changes), meta={"annotations": {annotation: value}})


def told(fenced: bool = True, **changes) -> Any:
    """A draining attempt with a successor."""
    kind = changes.pop("drain", None) or drain(**changes)
    return status(
        attempt(state=DRAINING, fenced=fenced, first_step=500, drain=kind),
        successor=attempt(2, INTENDED),
        requests={"orders": 1},
    )


LOST = AttemptRecord(
    number=1, tier="spot", kind=EndKind.LOSS, reason="NodeSilent", raised_at=at(-9), ended_at=at(-5), estimated=True
)
RAN = AttemptRecord(
    number=1, tier="spot", kind=EndKind.LOSS, reason="NodeGone", raised_at=at(-90), started_at=at(-80), ended_at=at(-5)
)
SPOT_ONLY = {"tiers": [TIERS[0]]}

CASES = [
    # --- what has happened
    Case("new job", snapshot(job()), ("first pod",), {"state": None, "attempt": 0, "created": [1], "phase": None}),
    Case("new job whose pod was refused", snapshot(job(), refusal=QUOTA), ("begin", "create"),
         {"state": ACQUIRING, "attempt": 1, "tier": "spot", "created": [1], "phase": "Acquiring", "wake": at(5)}),
    Case("first pod waits", snapshot(job(), pending()), ("taken up", "adopted"),
         {"state": ACQUIRING, "attempt": 1, "tier": "spot", "created": [], "phase": "Acquiring"}),
    Case("first pod runs", snapshot(job(), pod()), ("taken up", "adopted", "placed", "started"),
         {"state": RUNNING, "attempt": 1, "created": [], "deleted": []}),
    Case("first pod has ended", snapshot(job(), ended(1, 0, DONE)), ("taken up", "adopted", "ended"),
         {"phase": "Completed", "end": (1, EndKind.COMPLETED, "Exited")}),
    Case("first pod waits, and the job is suspended", snapshot(job(suspend=True), pending()),
         ("taken up", "adopted", "suspend before start", "suspended"),
         {"state": None, "phase": "Suspended", "attempt": 1, "deleted": [("u-1", None)]}),
    Case("first pod of a tier that is gone", snapshot(job(), pending(tier="gone")), ("taken up", "begin"),
         {"attempt": 2, "state": INTENDED, "created": [], "deleted": [("u-1", None)]}),
    Case("first pod of a tier that is gone runs already", snapshot(job(), pod(tier="gone")),
         ("taken up", "adopted", "placed", "started"), {"state": RUNNING, "tier": "gone", "deleted": []}),
    Case("status was lost", snapshot(job(), pod(4, deleted_at=at(9)), pod(5)), ("taken up", "begin"),
         {"attempt": 6, "state": INTENDED, "created": [], "deleted": [("u-5", None)]}),
    Case("status was lost, and the job is suspended", snapshot(job(suspend=True), pod(5)), ("taken up", "suspended"),
         {"attempt": 5, "state": None, "phase": "Suspended", "deleted": [("u-5", None)]}),
    Case("fence learned",
         snapshot(job(status(attempt())), pod(), reports=[report()]), ("learned",), {"state": RUNNING}),
    Case("first step learned", snapshot(job(status(attempt(fenced=True), fruitless_losses=3)), pod(),
         reports=[stepped(resumed_step=400)]), ("learned",), {"events": ["Resumed"]}),
    Case("learned from a pod that has ended", snapshot(job(status(attempt())), ended(1, 0, DONE), reports=[stepped()]),
         ("learned", "ended"), {"phase": "Completed"}),
    Case("completes", snapshot(job(status(FENCED)), ended(1, 0, DONE)), ("ended",),
         {"phase": "Completed", "reason": "Exited", "end": (1, EndKind.COMPLETED, "Exited"), "released": ["u-1"],
          "deleted": [], "events": ["AttemptCompleted", "JobCompleted"], "counts": (0, 0, 0)}),
    Case("completed while the operator was down", snapshot(job(status(attempt(state=ACQUIRING))), ended(1, 0, DONE)),
         ("ended",), {"phase": "Completed"}),
    Case("loss after progress", snapshot(job(status(FENCED)), ended(1, 0, disruption="DeletionByTaintManager")),
         ("ended", "create"),
         {"attempt": 2, "state": ACQUIRING, "created": [2], "counts": (1, 0, 0), "avoid": (),
          "end": (1, EndKind.LOSS, "DeletionByTaintManager")}),
    Case("loss without progress", snapshot(job(status(attempt(fenced=True))), ended(1, 137)), ("ended",),
         {"attempt": 2, "state": INTENDED, "created": [], "counts": (1, 1, 0), "avoid": ("n1",), "retry": at(10),
          "wake": at(10), "phase": "Recovering", "reason": "BackOff"}),
    Case("third loss without progress", snapshot(job(status(attempt(fenced=True), fruitless_losses=2)), ended(1, 137)),
         ("ended",), {"retry": at(40)}),
    Case("loss of a program that says nothing but ran for long", snapshot(job(status(attempt())), ended(1, 137)),
         ("ended", "create"), {"created": [2], "avoid": ()}),
    Case("rejected by a kubelet", snapshot(job(status(attempt(state=ACQUIRING))),
         pod(phase="Failed", trainer=None, reason="OutOfnvidia.com/gpu")), ("ended",),
         {"state": INTENDED, "counts": (1, 1, 0), "avoid": ("n1",)}),
    Case("first failure", snapshot(job(status(FENCED)), ended(1, 1, verdict("failed", "UserException"))), ("ended",),
         {"attempt": 2, "state": INTENDED, "counts": (0, 0, 1), "retry": at(10), "avoid": ()}),
    Case("third failure", snapshot(job(status(FENCED, failed_at=(at(-60), at(-30)))), ended(1, 1)), ("ended",),
         {"state": INTENDED, "retry": at(40)}),
    Case("one failure too many", snapshot(job(status(FENCED, failed_at=(at(-60), at(-30), at(-9)))), ended(1, 1)),
         ("ended",), {"phase": "Failed", "reason": "TooManyFailures", "counts": (0, 0, 1)}),
    Case("failures out of the window are forgotten",
         snapshot(job(status(FENCED, failed_at=(at(-90_000),) * 3)), ended(1, 1)), ("ended",), {"state": INTENDED}),
    Case("misconfigured", snapshot(job(status(attempt())), ended(1, 1, verdict("misconfigured", "StorageDenied"))),
         ("ended",), {"phase": "Failed", "reason": "StorageDenied", "counts": (0, 0, 0)}),
    Case("left on an order", snapshot(job(told()), ended(1, 0, DRAINED)), ("ended", "create"),
         {"attempt": 2, "created": [2], "end": (1, EndKind.LOSS, "SpotInterruption"), "counts": (1, 0, 0),
          "released": ["u-1"]}),
    Case("gone unseen", snapshot(job(status(FENCED))), ("pod gone", "create"),
         {"created": [2], "end": (1, EndKind.LOSS, "PodGone"), "estimated": True}),
    Case("gone, and an operator with an old view made its first pod again",
         snapshot(job(status(FENCED)), pending(uid="u-other")), ("pod gone",),
         {"attempt": 2, "state": INTENDED, "deleted": [("u-other", None)], "end": (1, EndKind.LOSS, "PodGone")}),
    Case("gone while leaving for a suspension",
         snapshot(suspending(attempt(state=DRAINING, drain=stopped()))), ("pod gone", "suspended"),
         {"end": (1, EndKind.STOPPED, "Suspended"), "counts": (0, 0, 0), "phase": "Suspended"}),
    Case("its Node object is gone", snapshot(job(status(FENCED)), pod(), cluster=nodes(without=("n1",))),
         ("node gone", "create"), {"created": [2], "end": (1, EndKind.LOSS, "NodeGone"), "estimated": True,
                                   "deleted": [("u-1", None)], "released": ["u-1"]}),
    Case("another node has its name", snapshot(job(status(FENCED)), pod(), cluster=nodes(node("n1", uid="u-new"))),
         ("node gone", "create"), {"created": [2]}),
    Case("a node never seen is not gone",
         snapshot(job(status(attempt(state=ACQUIRING))), pod(), cluster=nodes(without=("n1",))), ("placed", "started"),
         {"state": RUNNING}),
    Case("refused by quota", snapshot(job(status(attempt(state=ACQUIRING))), refusal=QUOTA), ("pod refused",),
         {"state": INTENDED, "retry": at(1), "reason": "PodRefused", "wake": at(1), "attempt": 1,
          "counts": (0, 0, 0), "events": ["PodRefused"]}),
    Case("refused again", snapshot(job(status(attempt(state=ACQUIRING, refusals=4))), refusal=QUOTA), ("pod refused",),
         {"retry": at(16)}),
    Case("refused until the tier's time is over",
         snapshot(job(status(attempt(state=ACQUIRING, acquire_deadline=at(-1)))), refusal=QUOTA),
         ("pod refused", "no node in time", "create"), {"tier": "dedicated", "attempt": 2, "created": [2]}),
    Case("invalid pod",
         snapshot(job(status(attempt(state=ACQUIRING))), refusal=Refusal(1, at(0), 422, "Invalid", "no")),
         ("pod refused",), {"phase": "Failed", "reason": "PodInvalid"}),
    Case("name taken",
         snapshot(job(status(attempt(state=ACQUIRING))), refusal=Refusal(1, at(0), 409, "NameTaken", "x")),
         ("pod refused", "create"), {"attempt": 2, "created": [2]}),
    Case("a refusal of an earlier attempt is old news",
         snapshot(job(status(attempt(2, ACQUIRING))), pending(2), refusal=QUOTA), (), {"state": ACQUIRING}),
    Case("pod missing", snapshot(job(status(attempt(state=ACQUIRING)))), ("pod missing", "create"),
         {"attempt": 2, "created": [2], "counts": (0, 0, 0), "end": None}),
    Case("pod not seen yet", snapshot(job(status(attempt(state=ACQUIRING, created_at=at(-3))))), (),
         {"attempt": 1, "created": [], "wake": at(2)}),
    Case("pending pod deleted", snapshot(job(status(attempt(state=ACQUIRING))), pending(deleted_at=at(0))),
         ("pending pod deleted",), {"attempt": 2, "created": [], "released": ["u-1"], "counts": (0, 0, 0),
                                    "retry": at(1), "reason": "BackOff", "events": ["PodReplaced"]}),
    Case("pending pod deleted again and again",
         snapshot(job(status(attempt(state=ACQUIRING, replaced=4))), pending(deleted_at=at(0))),
         ("pending pod deleted",), {"retry": at(16), "deadline": None}),
    Case("placed by a scheduler whose clock is behind",
         snapshot(job(status(attempt(state=ACQUIRING, raised_at=at(-60)))), placed(scheduled_at=at(-3600))),
         ("placed",), {"state": STARTING, "wake": at(1740)}),
    Case("storage is out of reach: no node is to blame",
         snapshot(job(status(attempt(fenced=True))), ended(1, 1, verdict("failed", "StorageUnreachable"))), ("ended",),
         {"state": INTENDED, "avoid": (), "counts": (1, 1, 0)}),
    Case("placed", snapshot(job(status(attempt(state=ACQUIRING))), placed()), ("placed",),
         {"state": STARTING, "phase": "Starting"}),
    Case("started", snapshot(job(status(attempt(state=STARTING))), pod()), ("started",),
         {"state": RUNNING, "phase": "Running", "events": ["Running"]}),
    # --- a silent node
    Case("deleted by force on a silent node",
         snapshot(job(status(attempt())), pod(deleted_at=at(-5), deletion_grace=0), cluster=nodes(silent())),
         ("deleted by force", "create"),
         {"created": [2], "estimated": True, "end": (1, EndKind.LOSS, "PodGone"), "released": ["u-1"]}),
    Case("deleted by force while nothing but its end is waited for",
         snapshot(job(told(False, reason="NodeSilent", deleted_at=at(-90))),
                  pod(deleted_at=at(-50), deletion_grace=0), cluster=nodes(silent())),
         ("deleted by force", "create"), {"created": [2], "end": (1, EndKind.LOSS, "NodeSilent")}),
    Case("silent before it holds the fence, and earlier attempts held one",
         snapshot(job(status(attempt(state=STARTING), library=True)), placed(), cluster=nodes(silent())),
         ("node silent",), {"end": (1, EndKind.LOSS, "NodeSilent"), "state": INTENDED, "retry": at(10)}),
    Case("silent before it holds the fence, and another program of the job held one",
         snapshot(job(status(attempt(state=STARTING), library=True, library_program="other")), placed(),
                  cluster=nodes(silent())), (), {"state": STARTING, "wake": at(25)}),
    Case("a program without a fence took the place of one that held it, and its node is silent",
         snapshot(job(status(attempt(), library=True, library_program="other")), pod(),
                  cluster=nodes(silent(seconds=36))), ("node silent, no fence",), {"state": DRAINING, "created": []}),
    Case("the job got another program while this one leaves, and its node is silent",
         snapshot(job(status(told().current, library=True, library_program="other")), pod(),
                  cluster=nodes(silent(seconds=36))), ("node silent, no fence",), {"state": DRAINING, "created": []}),
    Case("silent since a time to come: the fence protects",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent(seconds=-3600))), ("node silent", "create"),
         {"created": [2]}),
    Case("silent since a time to come, and reports arrive",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent(seconds=-3600)), reports=[stepped()]), (),
         {"wake": at(34)}),
    Case("silent since a time to come, no fence",
         snapshot(job(status(attempt())), pod(), cluster=nodes(silent(seconds=-3600))), (), {"wake": at(35)}),
    Case("half of the nodes silent together, for very long",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent("n1", 601), silent("n2", 601))),
         ("node silent", "create"), {"created": [2]}),
    Case("half of the nodes silent together for very long, but a report arrived",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent("n1", 601), silent("n2", 601)),
                  reports=[stepped(received_at=at(-60))]), (), {"state": RUNNING, "wake": at(540)}),
    Case("half of the nodes silent together for very long, no fence",
         snapshot(job(status(attempt())), pod(), cluster=nodes(silent("n1", 601), silent("n2", 601))), (),
         {"state": RUNNING, "deleted": []}),
    Case("silent node, fenced",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent())), ("node silent", "create"),
         {"created": [2], "avoid": ("n1",), "estimated": True, "end": (1, EndKind.LOSS, "NodeSilent"),
          "released": ["u-1"], "deleted": [("u-1", None)]}),
    Case("silent node, but reports arrive",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent()), reports=[stepped()]), (),
         {"state": RUNNING, "wake": at(34), "reason": "NodeSilent"}),
    Case("silent, and its last report is older than an outage of the operator",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent()), listening_since=at(-5),
                  reports=[stepped(received_at=at(-60))]), (), {"wake": at(30)}),
    Case("silent node, and the operator has not listened for long",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent()), listening_since=at(-5)), (),
         {"state": RUNNING, "wake": at(30)}),
    Case("silent node, just now", snapshot(job(status(FENCED)), pod(), cluster=nodes(silent(seconds=0.1))), (),
         {"state": RUNNING, "wake": at(0.4)}),
    Case("half of the nodes silent together",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent("n1"), silent("n2"))), (),
         {"state": RUNNING, "reason": "NodeSilent", "phase": "Running", "wake": at(590)}),
    Case("half of the nodes silent, one of them for long",
         snapshot(job(status(FENCED)), pod(), cluster=nodes(silent("n1"), silent("n2", 4000))),
         ("node silent", "create"), {"created": [2]}),
    Case("silent while it leaves", snapshot(job(told()), pod(), cluster=nodes(silent())), ("node silent", "create"),
         {"created": [2], "end": (1, EndKind.LOSS, "SpotInterruption")}),
    Case("silent node, no fence, for a moment",
         snapshot(job(status(attempt())), pod(), cluster=nodes(silent(seconds=10))), (),
         {"state": RUNNING, "deleted": [], "reason": "NodeSilent", "wake": at(25)}),
    Case("silent node, no fence", snapshot(job(status(attempt())), pod(), cluster=nodes(silent(seconds=36))),
         ("node silent, no fence",),
         {"state": DRAINING, "successor": 2, "created": [], "deleted": [("u-1", None)], "phase": "Recovering",
          "reason": "NodeSilent", "counts": (0, 0, 0)}),
    Case("silent without fence while it leaves on our word",
         snapshot(job(told(False, deleted_at=at(-1))), pod(deleted_at=at(5)), cluster=nodes(silent(seconds=36))),
         ("node silent, no fence",), {"state": DRAINING, "reason": "NodeSilent", "created": []}),
    Case("silent without fence keeps waiting",
         snapshot(job(told(False, reason="NodeSilent", deleted_at=at(-90))), pod(deleted_at=at(-50)),
                  cluster=nodes(silent(seconds=100))), (), {"state": DRAINING, "created": []}),
    Case("silent without fence, then its node is deleted",
         snapshot(job(told(False, reason="NodeSilent", deleted_at=at(-90))), pod(deleted_at=at(-50)),
                  cluster=nodes(without=("n1",))), ("node gone", "create"),
         {"created": [2], "end": (1, EndKind.LOSS, "NodeSilent")}),
    Case("silent before it was seen on its node",
         snapshot(job(status(attempt(state=ACQUIRING))), placed(), cluster=nodes(silent(seconds=36))),
         ("placed", "node silent, no fence"), {"state": DRAINING}),
    # --- the user's word
    Case("out of time", snapshot(job(status(FENCED), activeDeadline="30m"), pod()), ("out of time",),
         {"phase": "Failed", "reason": "DeadlineExceeded", "deleted": [("u-1", None)],
          "end": (1, EndKind.STOPPED, "DeadlineExceeded")}),
    Case("out of time without an attempt",
         snapshot(job(status(), activeDeadline="30m", capacity={"profile": "grid"})), ("out of time",),
         {"phase": "Failed", "end": None}),
    Case("time in suspension does not count",
         snapshot(job(status(FENCED, suspended_for="31m"), activeDeadline="30m"), pod()), (), {"wake": at(60)}),
    Case("suspended: the clock stands",
         snapshot(job(status(suspended_at=at(-9000)), activeDeadline="1m", suspend=True)),
         (), {"phase": "Suspended", "wake": None}),
    Case("suspended before it began", snapshot(job(suspend=True)), ("suspended",),
         {"phase": "Suspended", "attempt": 0, "created": []}),
    Case("suspend while waiting to begin again", snapshot(suspending(attempt(2, INTENDED, retry_at=at(60)))),
         ("suspend before start", "suspended"), {"phase": "Suspended", "counts": (0, 0, 0)}),
    Case("suspend while acquiring", snapshot(suspending(attempt(state=ACQUIRING)), pending()),
         ("suspend before start", "suspended"),
         {"phase": "Suspended", "deleted": [("u-1", None)], "counts": (0, 0, 0),
          "end": (1, EndKind.STOPPED, "Suspended")}),
    Case("suspend while starting", snapshot(suspending(attempt(state=STARTING)), placed()), ("suspend", "no answer"),
         {"state": DRAINING, "deleted": [("u-1", 100)], "phase": "Running", "reason": "Suspending"}),
    Case("suspend while running", snapshot(suspending(FENCED), pod()), ("suspend",),
         {"state": DRAINING, "deadline": at(100), "orders": [("drain", 1)], "wake": at(5), "deleted": [],
          "successor": None, "events": ["Suspending"]}),
    Case("suspend while it leaves already", snapshot(suspending(None).model_copy(update={"status": told()}), pod()), (),
         {"state": DRAINING}),
    Case("left while suspended", snapshot(suspending(None).model_copy(update={"status": told()}), ended(1, 0, DRAINED)),
         ("ended", "suspended"), {"phase": "Suspended", "successor": None, "created": [], "counts": (1, 0, 0)}),
    Case("resume", snapshot(job(status(suspended_at=at(-50), attempt=4))), ("resume", "begin", "create"),
         {"attempt": 5, "created": [5], "events": ["Resuming"]}),
    Case("resume before the pod has left", snapshot(job(status(attempt(state=DRAINING, drain=stopped()))),
         ended(1, 0, DRAINED)), ("ended", "create"), {"created": [2], "counts": (0, 0, 0)}),
]  # fmt: skip
