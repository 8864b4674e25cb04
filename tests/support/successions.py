"""Cases for the rows that bring a successor up, let it pass, and give it up."""

from typing import Any

from tests.support.core import (
    TIERS,
    at,
    attempt,
    container,
    drain,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    report,
    silent,
    snapshot,
    status,
    stepped,
    tier,
    verdict,
)
from tests.support.transitions import (
    ACQUIRING,
    DONE,
    DRAINED,
    DRAINING,
    FENCED,
    IMPENDING,
    INTENDED,
    RUNNING,
    SPOT_ITN,
    STARTING,
    Case,
)

from holdfast.api.attempt import AttemptState, Departure, EndKind, PodRecord
from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.names import ANNOTATION_MOVE
from holdfast.core.snapshot import Refusal, SavedCheckpoint

PROVEN = (TierKnowledge(tier="spot", state=Seen.UP, since=at(-9000), seen_at=at(-60)),)
SAVED = SavedCheckpoint(700, "s3://runs/vision/vit/manifests/1.json", 9, at(-60), at(2) - at(0))
SAYS = stepped(checkpoint=SAVED)
HOLDS = report(2, state="holding", fenced=False)
GOING = nodes(node(taints=(SPOT_ITN,)))  # leaves 120 s
ON_DEDICATED = FENCED.model_copy(update={"tier": tier("dedicated")})
ALONE = {"capacity": {"tiers": list(TIERS), "maxOverlap": "0s"}}


def departs(seconds: float = 100) -> Departure:
    """Its node goes in so many seconds; the last save has to begin 14 s before."""
    told = {"reason": "SpotInterruption", "message": "taint", "at": at(-10)}
    return Departure(**told, deadline=at(seconds), leave_at=at(seconds - 14))


def follower(state: AttemptState, **changes: Any):
    """A successor of attempt 1, on node n2 if it has one."""
    if state in (STARTING, RUNNING):
        changes.setdefault("pods", (PodRecord(uid="u-2", node="n2", node_uid="u-n2"),))
        changes.setdefault("scheduled_at", at(-60))
    if state is not INTENDED:
        changes.setdefault("predecessor", 1)
    return attempt(2, state, raised_at=at(-70), **changes)


def given(current, successor=None, *, spec: dict[str, Any] | None = None, **changes: Any):
    """A job whose attempt 1 trains and has a successor."""
    return job(status(current, successor=successor, **changes), **(spec or {}))


LEAVING = FENCED.model_copy(update={"departure": departs()})
TOLD = attempt(state=DRAINING, fenced=True, first_step=500, drain=drain())
BESIDE = pod(2, node="n2")
QUOTA = Refusal(2, at(-1), 403, "Forbidden", "exceeded quota: gpus")
INVALID = Refusal(2, at(-1), 422, "Invalid", "spec.nodeSelector: Invalid value")

CASES = [
    # --- a notice that leaves time
    Case("a notice that leaves time", snapshot(given(FENCED), pod(), cluster=GOING, reports=[SAYS]),
         ("departs", "create beside"),
         {"state": RUNNING, "departs": at(120), "follows": (ACQUIRING, "spot", 1), "created": [2], "wake": at(5),
          "orders": [("checkpoint", 1)], "events": ["Notice"], "phase": "Migrating", "reason": "SpotInterruption"}),
    Case("a notice that leaves too little time for that",
         snapshot(given(FENCED), pod(disruption="x", deleted_at=at(13)), reports=[SAYS]), ("notice", "create beside"),
         {"state": DRAINING, "created": [2], "orders": [("drain", 1)]}),
    Case("a notice to a program that never saved", snapshot(given(FENCED), pod(), cluster=GOING, reports=[stepped()]),
         ("notice", "create beside"), {"state": DRAINING}),
    Case("a notice to a program that nothing fences",
         snapshot(given(attempt(first_step=500)), pod(), cluster=GOING, reports=[stepped(fenced=False)]), ("notice",),
         {"state": DRAINING, "created": [], "follows": (INTENDED, "spot", None)}),
    Case("a notice to a job that may not have two nodes",
         snapshot(given(FENCED, spec=ALONE), pod(), cluster=GOING, reports=[SAYS]), ("notice",),
         {"state": DRAINING, "created": [], "follows": (INTENDED, "spot", None)}),
    Case("it trains on until the next one is ready",
         snapshot(given(LEAVING, follower(RUNNING)), pod(), BESIDE, cluster=GOING, reports=[SAYS]), (),
         {"state": RUNNING, "wake": at(86), "orders": []}),
    Case("the next one is ready",
         snapshot(given(LEAVING, follower(RUNNING)), pod(), BESIDE, cluster=GOING, reports=[SAYS, HOLDS]), ("leaves",),
         {"state": DRAINING, "deadline": at(100), "orders": [("drain", 1)], "events": ["Leaving"], "deleted": []}),
    Case("time is up", snapshot(given(FENCED.model_copy(update={"departure": departs(14)}), follower(STARTING)), pod(),
         placed(2, node="n2"), cluster=GOING, reports=[SAYS]), ("leaves",),
         {"state": DRAINING, "deadline": at(14), "follows": (STARTING, "spot", 1)}),
    Case("a second notice leaves less time to train",
         snapshot(given(LEAVING, follower(RUNNING)), pod(), BESIDE, cluster=nodes(node(taints=(SPOT_ITN, IMPENDING))),
                  reports=[SAYS]), ("less time to train",), {"state": RUNNING, "departs": at(30), "wake": at(16)}),
    Case("it departs, and its pod is deleted: it leaves already",
         snapshot(given(LEAVING, follower(STARTING)), pod(deleted_at=at(60)), placed(2, node="n2"), cluster=GOING,
                  reports=[SAYS]), ("less time to train", "leaves"), {"state": DRAINING, "deadline": at(60)}),
    Case("a pod is deleted, however much time that leaves",
         snapshot(given(FENCED), pod(deleted_at=at(90)), reports=[SAYS]), ("notice", "create beside"),
         {"state": DRAINING}),
    Case("it departs, and the operator has just come back",
         snapshot(given(LEAVING, follower(RUNNING)), pod(), BESIDE, cluster=GOING), (), {"wake": at(86)}),
    Case("a notice while the profile is missing", snapshot(given(FENCED, spec={"capacity": {"profile": "grid"}}), pod(),
         cluster=GOING, reports=[SAYS]), ("departs",), {"state": RUNNING, "successor": None, "wake": at(106)}),
    Case("the next one was given up", snapshot(given(LEAVING, attempt=2), pod(), cluster=GOING, reports=[SAYS]),
         ("follower lost",), {"state": RUNNING, "successor": 3, "follows": (INTENDED, "spot", None), "wake": at(10)}),
    Case("the next one was given up again and again",
         snapshot(given(LEAVING.model_copy(update={"vain": 3}), attempt=2), pod(), cluster=GOING, reports=[SAYS]),
         ("follower lost",), {"successor": 3, "wake": at(40)}),
    Case("a notice while a save is ordered already",
         snapshot(given(FENCED, requests={"orders": 3, "checkpoint_order": 3}), pod(), cluster=GOING, reports=[SAYS]),
         ("departs", "create beside"), {"orders": [("checkpoint", 3)]}),
    Case("a notice when one for a better tier is ready",
         snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE, cluster=GOING, reports=[SAYS, HOLDS]),
         ("notice",), {"state": DRAINING, "departs": None}),
    Case("the next one is ready long before the node goes",
         snapshot(given(FENCED.model_copy(update={"departure": departs(1000)}), follower(RUNNING)), pod(), BESIDE,
                  cluster=GOING, reports=[stepped(checkpoint=SAVED), HOLDS], now=at(0)),
         ("less time to train", "leaves"), {"state": DRAINING, "deadline": at(100)}),
    Case("it passed the fence long ago, and the operator has just come",
         snapshot(job(status(follower(RUNNING, go=2, fenced=True, started_at=at(-1900)), requests={"orders": 2})),
                  BESIDE, listening_since=at(-1800)), (), {"state": RUNNING, "orders": []}),
    # --- back to a better tier
    Case("a better tier", snapshot(given(ON_DEDICATED), pod(), reports=[SAYS]), ("another tier", "create beside"),
         {"state": RUNNING, "tier": "dedicated", "follows": (ACQUIRING, "spot", 1), "created": [2],
          "phase": "Running", "orders": []}),
    Case("a better tier, before its first step",
         snapshot(given(ON_DEDICATED.model_copy(update={"first_step": None})), pod(), reports=[report()]), (),
         {"successor": None}),
    Case("a better tier, but the user does not want to", snapshot(given(ON_DEDICATED, spec={"capacity": {
         "tiers": list(TIERS), "returnPolicy": "Never"}}), pod(), reports=[SAYS]), (), {"successor": None}),
    Case("a better tier, but the job may not have two nodes",
         snapshot(given(ON_DEDICATED, spec=ALONE), pod(), reports=[SAYS]), (), {"successor": None}),
    Case("a better tier that was tried just now",
         snapshot(given(ON_DEDICATED.model_copy(update={"return_after": at(60)})), pod(), reports=[SAYS]), (),
         {"successor": None, "wake": at(60)}),
    Case("a better tier, while the node goes", snapshot(given(ON_DEDICATED.model_copy(update={"departure": departs()}),
         follower(ACQUIRING)), pod(), pending(2), reports=[SAYS]), (), {"state": RUNNING, "wake": at(86)}),
    Case("the better tier has no node yet",
         snapshot(given(ON_DEDICATED, follower(ACQUIRING, acquire_deadline=at(-9))), pod(), pending(2), reports=[SAYS]),
         (), {"state": RUNNING, "successor": 2, "deleted": []}),
    Case("the better tier has a node", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(), placed(2, node="n2"),
         reports=[SAYS]), ("successor placed",), {"follows": (STARTING, "spot", 1), "state": RUNNING}),
    Case("the follower starts", snapshot(given(ON_DEDICATED, follower(STARTING)), pod(), BESIDE, reports=[SAYS]),
         ("successor started",), {"follows": (RUNNING, "spot", 1), "events": ["SuccessorStarted"]}),
    Case("the follower is ready", snapshot(given(ON_DEDICATED, follower(RUNNING), tiers=PROVEN), pod(), BESIDE,
         reports=[SAYS, HOLDS]), ("switch",),
         {"state": DRAINING, "deadline": at(600), "orders": [("drain", 1)], "events": ["Returning"],
                       "phase": "Migrating", "reason": "Returning"}),
    Case("the follower is ready, but its node has failed since", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(),
         ended(2, 137, node="n2"), reports=[SAYS, HOLDS]), ("successor ended",), {"state": RUNNING, "successor": None}),
    Case("the follower is ready, but its node goes too", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE,
         cluster=nodes(node("n2", taints=(SPOT_ITN,))), reports=[SAYS, HOLDS]), ("successor on notice",),
         {"state": RUNNING}),
    Case("the follower is ready, but saves fail", snapshot(given(ON_DEDICATED, follower(RUNNING), tiers=PROVEN), pod(),
         BESIDE, reports=[stepped(checkpoint=SAVED, save_error="denied"), HOLDS]), (),
         {"state": RUNNING, "deleted": []}),
    Case("a better tier, but saves fail", snapshot(given(ON_DEDICATED), pod(),
         reports=[stepped(checkpoint=SAVED, save_error="denied")]), (), {"successor": None}),
    Case("the follower is ready, but its tier has not proved itself", snapshot(given(ON_DEDICATED, follower(RUNNING)),
         pod(), BESIDE, reports=[SAYS, HOLDS]), (), {"state": RUNNING, "successor": 2, "wake": at(119)}),
    Case("the follower's tier cannot prove itself as long as two nodes may be paid for", snapshot(given(ON_DEDICATED,
         follower(STARTING), spec={"capacity": {"tiers": list(TIERS), "maxOverlap": "2m"}}), pod(),
         placed(2, node="n2"), reports=[SAYS]), ("successor not worth it",),
         {"state": RUNNING, "successor": None, "deleted": [("u-2", None)], "end": (2, EndKind.STOPPED, "NotWorthIt"),
          "wake": at(119), "counts": (0, 0, 0)}),
    # --- the switch
    Case("the follower is ready while the other saves for long",
         snapshot(given(TOLD, follower(RUNNING, scheduled_at=at(-900)), requests={"orders": 1}), pod(), BESIDE,
                  reports=[stepped(state="saving"), HOLDS]), (), {"state": DRAINING, "successor": 2, "deleted": []}),
    Case("let pass, and not heard of for long",
         snapshot(job(status(follower(RUNNING, go=2, started_at=at(-1900)), requests={"orders": 2})), BESIDE,
                  listening_since=at(-1800)), ("never passed",),
         {"state": INTENDED, "attempt": 3, "end": (2, EndKind.LOSS, "Unreachable"), "deleted": [("u-2", None)]}),
    Case("let pass, and not heard of yet",
         snapshot(job(status(follower(RUNNING, go=2, started_at=at(-1900)), requests={"orders": 2})), BESIDE,
                  listening_since=at(-1799)), (), {"state": RUNNING, "wake": at(1), "orders": [("go", 2)]}),
    Case("it says that it has left",
         snapshot(given(TOLD, follower(RUNNING), requests={"orders": 1}), pod(), BESIDE,
                  reports=[stepped(state="left", acknowledged=1), HOLDS]), ("order acknowledged", "handed over"),
         {"state": DRAINING, "go": [2], "orders": [("go", 2)]}),
    Case("it says that it has left before it was told to",
         snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE, reports=[stepped(state="left"), HOLDS]),
         ("handed over",), {"state": RUNNING, "go": [1], "orders": [("go", 1)]}),
    Case("it has ended before it was said to go",
         snapshot(given(TOLD, follower(RUNNING), requests={"orders": 1}), ended(1, 0, DRAINED), BESIDE,
                  reports=[HOLDS]), ("ended",),
         {"state": RUNNING, "attempt": 2, "successor": None, "go": [2], "orders": [("go", 2)],
                      "end": (1, EndKind.LOSS, "SpotInterruption"), "created": [], "counts": (1, 0, 0),
                      "events": ["AttemptLoss", "Switched"], "released": ["u-1"]}),
    Case("it has ended after it was said to go",
         snapshot(given(TOLD, follower(RUNNING, go=2), requests={"orders": 2}), ended(1, 0, DRAINED), BESIDE),
         ("ended",), {"attempt": 2, "go": [2], "orders": [("go", 2)]}),
    Case("it is lost while the next one waits for a node",
         snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pending(2)), ("pod gone",),
         {"state": ACQUIRING, "attempt": 2, "tier": "spot", "created": [], "deleted": [], "counts": (1, 0, 0)}),
    Case("it passed the fence", snapshot(job(status(follower(RUNNING, go=2), requests={"orders": 2})),
         BESIDE, reports=[report(2)]), ("learned",), {"orders": [], "state": RUNNING}),
    Case("it completes although the next one is ready",
         snapshot(given(ON_DEDICATED, follower(RUNNING)), ended(1, 0, DONE), BESIDE), ("ended",),
         {"phase": "Completed", "successor": None, "deleted": [("u-2", None)],
          "end": (2, EndKind.STOPPED, "NotNeeded")}),
    Case("a failure while the next one is ready: it goes on at once",
         snapshot(given(ON_DEDICATED, follower(RUNNING)), ended(1, 1, verdict("failed", "UserException")), BESIDE,
                  reports=[HOLDS]), ("ended",), {"attempt": 2, "state": RUNNING, "counts": (0, 0, 1), "retry": None}),
    # --- given up
    Case("suspended while the next one is ready",
         snapshot(given(TOLD, follower(RUNNING), spec={"suspend": True}), pod(), BESIDE), ("successor not wanted",),
         {"state": DRAINING, "successor": None, "deleted": [("u-2", None)], "end": (2, EndKind.STOPPED, "NotNeeded")}),
    Case("its tier is no better any more", snapshot(given(ON_DEDICATED, follower(ACQUIRING), spec={"capacity": {
         "tiers": list(TIERS), "returnPolicy": "Never"}}), pod(), pending(2), reports=[SAYS]),
         ("successor not wanted",), {"successor": None, "deleted": [("u-2", None)], "end": None}),
    Case("the follower fails", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), ended(2, 1, node="n2"),
         reports=[SAYS]), ("successor ended",),
         {"state": RUNNING, "successor": None, "counts": (0, 0, 0), "end": (2, EndKind.STOPPED, "ExitCode"),
          "events": ["SuccessorGivenUp"], "released": ["u-2"]}),
    Case("the follower is preempted", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(),
         ended(2, 137, node="n2", disruption="PreemptionByScheduler"), reports=[SAYS]), ("successor ended",),
         {"state": RUNNING, "counts": (1, 0, 0), "end": (2, EndKind.LOSS, "PreemptionByScheduler")}),
    Case("the follower is gone", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), reports=[SAYS]),
         ("successor gone",), {"state": RUNNING, "counts": (1, 0, 0), "end": (2, EndKind.LOSS, "PodGone")}),
    Case("the follower's node is gone", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE,
         cluster=nodes(without=("n2",)), reports=[SAYS]), ("successor gone",), {"deleted": [("u-2", None)]}),
    Case("the follower's node is silent", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE,
         cluster=nodes(silent("n2")), reports=[SAYS]), ("successor gone",), {"estimated": True}),
    Case("the follower's node fell silent before it was seen there", snapshot(given(ON_DEDICATED, follower(ACQUIRING)),
         pod(), placed(2, node="n2"), cluster=nodes(silent("n2")), reports=[SAYS]), ("successor gone",),
         {"state": RUNNING, "successor": None, "end": (2, EndKind.LOSS, "NodeSilent"), "estimated": True}),
    Case("the follower's node goes too", snapshot(given(ON_DEDICATED, follower(RUNNING)), pod(), BESIDE,
         cluster=nodes(node("n2", taints=(SPOT_ITN,))), reports=[SAYS]), ("successor on notice",),
         {"state": RUNNING, "deleted": [("u-2", None)], "end": (2, EndKind.LOSS, "SpotInterruption")}),
    Case("the follower takes too long", snapshot(given(ON_DEDICATED, follower(RUNNING, scheduled_at=at(-600))), pod(),
         BESIDE, reports=[SAYS]), ("successor too slow",),
         {"state": RUNNING, "end": (2, EndKind.STOPPED, "OverlapTooLong"), "deleted": [("u-2", None)]}),
    Case("the follower cannot be made", snapshot(given(ON_DEDICATED, follower(STARTING)), pod(),
         placed(2, node="n2", trainer=container(waiting="InvalidImageName")), reports=[SAYS]), ("successor stuck",),
         {"state": RUNNING, "end": (2, EndKind.STOPPED, "InvalidImageName"), "deleted": [("u-2", None)]}),
    Case("the follower's pod is invalid", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(), refusal=INVALID,
         reports=[SAYS]), ("successor refused",), {"state": RUNNING, "successor": None, "end": None}),
    # --- promised by a leader that died before status said so
    Case("a promised follower is there, and the node goes",
         snapshot(given(FENCED, library=True), pod(), BESIDE, cluster=GOING, reports=[SAYS]),
         ("taken over", "departs", "successor placed", "successor started"),
         {"state": RUNNING, "follows": (RUNNING, "spot", 1), "created": [], "deleted": []}),
    Case("a promised follower is there, and nobody needs it",
         snapshot(given(FENCED, library=True), pod(), pending(2), reports=[SAYS]),
         ("taken over", "successor not wanted"),
         {"state": RUNNING, "attempt": 2, "successor": None, "deleted": [("u-2", None)], "end": None}),
    Case("a promised follower has a node, and nobody needs it",
         snapshot(given(FENCED, library=True), pod(), BESIDE, reports=[SAYS]),
         ("taken over", "successor not wanted"),
         {"successor": None, "deleted": [("u-2", None)], "end": (2, EndKind.STOPPED, "NotNeeded")}),
    Case("a promised follower waits for a tier that is gone",
         snapshot(given(FENCED, library=True), pod(), pending(2, tier="gone"), reports=[SAYS]), ("taken over",),
         {"state": RUNNING, "attempt": 2, "successor": None, "deleted": [("u-2", None)]}),
    Case("a promised follower is there, and the attempt before it has ended",
         snapshot(given(FENCED, library=True), ended(1, 0, DRAINED), BESIDE),
         ("taken over", "ended", "placed", "started"), {"state": RUNNING, "attempt": 2, "orders": [("go", 1)]}),
    Case("a promised pod is there, and there is no other attempt",
         snapshot(job(status(None, attempt=1, library=True)), ended(1, 0, DRAINED), BESIDE),
         ("taken over", "adopted", "placed", "started"), {"state": RUNNING, "attempt": 2, "orders": [("go", 1)]}),
    # --- troubles on the way
    Case("a follower whose pod was refused has nobody to wait for any more",
         snapshot(given(ON_DEDICATED, follower(INTENDED, predecessor=1, refusals=1, retry_at=at(9)))),
         ("pod gone", "create"), {"attempt": 2, "created": [2], "go": [], "predecessor": None}),
    Case("a follower whose pod was refused is there all the same",
         snapshot(job(status(follower(INTENDED, predecessor=1, refusals=1))), BESIDE),
         ("adopted", "placed", "started"), {"attempt": 2, "go": [1], "orders": [("go", 1)], "predecessor": 1}),
    Case("the follower's pod is refused", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(), refusal=QUOTA,
         reports=[SAYS]), ("successor refused",),
         {"state": RUNNING, "successor": None, "reason": None, "events": ["SuccessorGivenUp"]}),
    Case("the follower's pod is refused while the node goes", snapshot(given(LEAVING, follower(ACQUIRING)), pod(),
         refusal=QUOTA, reports=[SAYS]), ("successor put off",),
         {"state": RUNNING, "follows": (INTENDED, "spot", 1), "events": ["PodRefused"], "wake": at(1)}),
    Case("the follower's name is taken", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(), reports=[SAYS],
         refusal=Refusal(2, at(0), 409, "NameTaken", "x")), ("successor put off", "create beside"),
         {"successor": 3, "created": [3]}),
    Case("the follower's pod is missing", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(), reports=[SAYS]),
         ("successor missing", "create beside"), {"follows": (ACQUIRING, "spot", 1), "successor": 3, "created": [3]}),
    Case("somebody deletes the pending follower", snapshot(given(ON_DEDICATED, follower(ACQUIRING)), pod(),
         pending(2, deleted_at=at(0)), reports=[SAYS]), ("pending successor deleted",),
         {"successor": 3, "follows": (INTENDED, "spot", None), "state": RUNNING, "wake": at(1)}),
    Case("no node for the follower while the node goes",
         snapshot(given(LEAVING, follower(ACQUIRING, acquire_deadline=at(0))), pod(), pending(2), reports=[SAYS]),
         ("no node for successor",),
         {"successor": 3, "follows": (INTENDED, "dedicated", None), "deleted": [("u-2", None)], "end": None}),
    Case("the follower's tier is removed while the node goes", snapshot(given(LEAVING, follower(ACQUIRING), spec={
         "capacity": {"tiers": list(TIERS[1:])}}), pod(), pending(2), reports=[SAYS]), ("no node for successor",),
         {"successor": 3, "follows": (INTENDED, "dedicated", None), "deleted": [("u-2", None)]}),
    Case("the follower's tier is removed", snapshot(given(ON_DEDICATED, follower(ACQUIRING), spec={"capacity": {
         "tiers": list(TIERS[1:])}}), pod(), pending(2), reports=[SAYS]), ("successor not wanted",),
         {"successor": None, "deleted": [("u-2", None)]}),
    Case("the follower's tier is described anew", snapshot(given(ON_DEDICATED, follower(ACQUIRING), spec={"capacity": {
         "tiers": [{**TIERS[0], "nodeSelector": {"tier": "new"}}, *TIERS[1:]]}}), pod(), pending(2), reports=[SAYS]),
         ("successor not wanted", "another tier"), {"successor": 3, "deleted": [("u-2", None)]}),
    Case("the follower's tier has another price", snapshot(given(ON_DEDICATED, follower(ACQUIRING), spec={"capacity": {
         "tiers": [{**TIERS[0], "pricePerNodeHour": "1.50"}, *TIERS[1:]]}}), pod(), pending(2), reports=[SAYS]), (),
         {"successor": 2, "deleted": []}),
    Case("one that was given up does not end, and the fence makes it harmless",
         snapshot(job(status(attempt(3, INTENDED), library=True)), pod(2, node="n2", deleted_at=at(-30))), ("create",),
         {"created": [3]}),
    Case("one that was given up does not end yet",
         snapshot(job(status(attempt(3, INTENDED), library=True)), pod(2, node="n2", deleted_at=at(-29))), (),
         {"created": [], "wake": at(1)}),
    Case("one that was given up does not end, and nothing makes it harmless",
         snapshot(job(status(attempt(3, INTENDED))), pod(2, node="n2", deleted_at=at(-9000))), (), {"created": []}),
    Case("a move away while the next one comes up elsewhere",
         snapshot(given(ON_DEDICATED, follower(STARTING)).model_copy(
         update={"metadata": job(meta={"annotations": {ANNOTATION_MOVE: "r1"}}).metadata}), pod(),
         placed(2, node="n2"), reports=[SAYS]), ("move",), {"state": DRAINING, "successor": 2, "deleted": []}),
    Case("a third pod lives", snapshot(given(TOLD, attempt(3, INTENDED)), pod(), pod(2, node="n2", deleted_at=at(50))),
         (), {"created": []}),
    Case("a move while the next one comes up", snapshot(given(ON_DEDICATED, follower(STARTING)).model_copy(
         update={"metadata": job(meta={"annotations": {ANNOTATION_MOVE: "r1 cpu"}}).metadata}), pod(),
         placed(2, node="n2"), reports=[SAYS]), ("move",),
         {"state": DRAINING, "successor": 3, "deleted": [("u-2", None)], "end": (2, EndKind.STOPPED, "MoveRequested")}),
]  # fmt: skip
