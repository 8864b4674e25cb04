"""Cases of rows under the policies Cheapest and Deadline, and under a budget."""

from typing import Any

from tests.support.decisions.snapshots import (
    SAME,
    TIERS,
    at,
    attempt,
    drain,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    report,
    snapshot,
    status,
)
from tests.support.decisions.snapshots import stepped as reported
from tests.support.decisions.snapshots import tier as tier_of
from tests.unit.core.table.row_cases import ACQUIRING, DRAINED, DRAINING, INTENDED, RUNNING, STARTING, Case
from tests.unit.core.table.successor_cases import follower

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.scalars import format_time
from holdfast.core.observe.report import SavedCheckpoint
from holdfast.core.observe.snapshot import Snapshot

WORK = 99_100  # seconds; 100,000 steps of 1 s each, 900 of them done
NO_NODES = nodes(without=("n1", "n2", "n3", "n4"))
DEDICATED_STANDS = nodes(node("d1", labels={"tier": "dedicated"}))
SAYS = reported(step=900, step_at=at(0))
LOADS = report(state="starting", fenced=False)


def training(tier: str = "spot", **changes: Any):
    """Attempt 1: 400 steps of 1 s each since step 500, and 99,100 to go."""
    fields = {"tier": tier_of(tier), "fenced": True, "first_step": 500, "progress_at": at(-400)}
    return attempt(**{**fields, "last_step": 900, "last_step_at": at(0), **changes})


def known(tier: str = "spot", state: Seen | None = Seen.REFUSED, since: float = -60, **changes: Any) -> TierKnowledge:
    """What was seen of a tier: refused just now, and a pace of 1 s."""
    seen = {"state": state, "since": at(since), "seen_at": at(0)} if state else {}
    return TierKnowledge(tier=tier, pace=at(1) - at(0), **{**seen, **changes})


def under(policy: str, given_status=None, *, slack: float = 36_000, **changes: Any):
    """A job under this policy whose deadline leaves so much slack; `changes` are of spec.capacity, or `suspend`."""
    spec = {"suspend": True} if changes.pop("suspend", False) else {}
    capacity = {"tiers": list(TIERS), "policy": policy, "deadline": format_time(at(WORK + slack)), **changes}
    return job(given_status, capacity=capacity, goal={"steps": 100_000}, **spec)


def case(name: str, given_job, *pods, trace: tuple[str, ...] = (), then: dict[str, Any], **view: Any) -> Case:
    """A case; the trainer of attempt 1 reports as `training` says, if its pod is there."""
    seen = [SAYS] if any(one.attempt == 1 and one.node for one in pods) else []
    given: Snapshot = snapshot(given_job, *pods, reports=[*seen, *view.pop("reports", ())], **view)
    return Case(name, given, trace, then)


ALONE = {"maxOverlap": "0s"}
HOLDS = report(2, state="waiting", fenced=False)
ON_DEDICATED = {"tier": tier_of("dedicated")}
OVER = AttemptRecord(
    number=1, tier="spot", kind=EndKind.STOPPED, reason="BudgetExceeded", raised_at=at(-900), scheduled_at=at(-900),
    ended_at=at(-60), cost="0.238",
)  # fmt: skip
REFUSED = AttemptRecord(
    number=2, tier="spot", kind=EndKind.STOPPED, reason="AcquireTimeout", raised_at=at(-2000), ended_at=at(-1800)
)
SPENT = {"by_tier": ({"tier": "spot", "kind": "Spot", "attempts": 1, "spent": "0.238"},)}
PAUSED: dict[str, Any] = {"attempt": 1, "suspended_at": at(-50), "history": (OVER,), "ledger": SPENT}

CASES = [
    # --- where a new attempt goes
    case("Deadline: no pace is known before the first steps", under("Deadline"), trace=("first pod",),
         then={"created": [1]}),
    case("Cheapest: the first pod goes where work costs least",
         under("Cheapest", tiers=[TIERS[1], TIERS[0]]), trace=("first pod",), then={"created": [1]}),
    case("Deadline: Spot is lost, and another of its nodes stands", under("Deadline", status(training(), tiers=(
         known(state=None),))), ended(1, 137, disruption="PreemptionByScheduler"), trace=("ended", "create"),
         then={"tier": "spot", "attempt": 2}),
    case("Deadline: Spot was refused, and there is no slack to wait", under("Deadline", status(None, attempt=3, tiers=(
         known(),)), slack=3000), trace=("begin", "create"), then={"tier": "dedicated"}, cluster=NO_NODES),
    case("Deadline: Spot was refused, and there is time to wait", under("Deadline", status(None, attempt=3, tiers=(
         known(),))), trace=("begin", "create"), then={"tier": "spot"}, cluster=NO_NODES),
    case("Cheapest: Spot was refused", under("Cheapest", status(None, attempt=3, tiers=(known(),))),
         trace=("begin", "create"), then={"tier": "dedicated"}, cluster=NO_NODES),
    case("Cheapest: Spot was refused too long ago to know, and dedicated was not asked yet", under("Cheapest",
         status(None, attempt=3, tiers=(known(state=None),), history=(REFUSED,))), trace=("begin", "create"),
         then={"tier": "dedicated"}, cluster=NO_NODES),
    # --- while a pod waits
    case("Deadline: it waits for Spot for as long as there is time", under("Deadline", status(attempt(2, ACQUIRING,
         created_at=at(-600), acquire_deadline=at(-300)), tiers=(known(since=-600),))), pending(2),
         then={"state": ACQUIRING, "tier": "spot", "attempt": 2}, cluster=NO_NODES),
    case("Deadline: the time to wait for Spot is over", under("Deadline", status(attempt(2, ACQUIRING,
         created_at=at(-600)), tiers=(known(since=-600),)), slack=3000), pending(2), trace=("no node in time",),
         then={"tier": "dedicated", "attempt": 3, "end": (2, EndKind.STOPPED, "AcquireTimeout"), "counts": (0, 0, 0),
               "events": ["TierChanged"]}, cluster=NO_NODES),
    case("Deadline: a pod that was made just now is not given up", under("Deadline", status(attempt(2, ACQUIRING,
         created_at=at(-10)), tiers=(known(since=-600),)), slack=4800), pending(2),
         then={"tier": "spot", "wake": at(50)}, cluster=NO_NODES),
    case("Deadline: dedicated has no node in time, and Spot is unknown", under("Deadline", status(attempt(2, ACQUIRING,
         tier=tier_of("dedicated"), created_at=at(-300), acquire_deadline=at(0)), tiers=(known(state=None),)),
         slack=3000), pending(2), trace=("no node in time",),
         then={"tier": "spot", "end": (2, EndKind.STOPPED, "AcquireTimeout")}, cluster=NO_NODES),
    case("Cheapest: a cheaper tier has a node while the pod waits elsewhere", under("Cheapest", status(attempt(2,
         ACQUIRING, tier=tier_of("dedicated"), created_at=at(-90)), tiers=(known(state=None),))), pending(2),
         trace=("no node in time",), then={"tier": "spot", "end": (2, EndKind.STOPPED, "OtherTier")}),
    case("Cheapest: a node is on its way", under("Cheapest", status(attempt(2, ACQUIRING, tier=tier_of("dedicated"),
         created_at=at(-90)), tiers=(known(state=None),))), pending(2, nominated=True), then={"tier": "dedicated"}),
    case("Cheapest: the only node of the only tier is avoided", under("Cheapest", status(attempt(2, ACQUIRING,
         created_at=at(-300), acquire_deadline=at(0), avoid_nodes=("n1",)), tiers=(known(state=None),)),
         tiers=[TIERS[0]]), pending(2), trace=("no node in time",), then={"tier": "spot", "avoid": ()}),
    case("Deadline: the tier is removed", under("Deadline", status(attempt(2, ACQUIRING), tiers=(known(),)),
         tiers=list(TIERS[1:])), pending(2), trace=("no node in time",),
         then={"tier": "dedicated", "end": (2, EndKind.STOPPED, "TierRemoved")}, cluster=NO_NODES),
    # --- while it trains
    case("Deadline: on Spot with slack it stays", under("Deadline", status(training())), pod(),
         then={"state": RUNNING, "successor": None}),
    case("Deadline: on a tier that left the grid it stays", under("Deadline", status(training()),
         tiers=list(TIERS[1:])), pod(), then={"state": RUNNING, "successor": None}),
    case("Deadline: no slack is left for Spot", under("Deadline", status(training()), slack=600), pod(),
         trace=("another tier", "create beside"),
         then={"state": RUNNING, "follows": (ACQUIRING, "dedicated", 1), "events": ["TierChosen", "DeadlineAtRisk"]}),
    case("Deadline: its successor on dedicated waits at the fence", under("Deadline", status(training(),
         successor=follower(RUNNING, **ON_DEDICATED)), slack=600), pod(), pod(2, node="n2"), reports=[HOLDS],
         trace=("switch",), then={"state": DRAINING, "reason": "KeepingDeadline", "end": None}),
    case("Deadline: its successor on dedicated has no node yet", under("Deadline", status(training(),
         successor=follower(ACQUIRING, **ON_DEDICATED)), slack=600), pod(), pending(2),
         then={"state": RUNNING, "successor": 2}),
    case("Deadline: its successor on dedicated has taken too long", under("Deadline", status(training(),
         successor=follower(STARTING, scheduled_at=at(-600), **ON_DEDICATED)), slack=600), pod(), placed(2, node="n2"),
         trace=("no time to lose",),
         then={"state": DRAINING, "follows": (STARTING, "dedicated", 1), "deadline": at(100)}),
    case("Deadline: no successor is allowed", under("Deadline", status(training()), slack=600, **ALONE), pod(),
         trace=("no time to lose",),
         then={"state": DRAINING, "follows": (INTENDED, "dedicated", None), "created": [],
               "reason": "KeepingDeadline"}),
    case("Deadline: no operator listened for hours, and it has made progress", under("Deadline",
         status(training(progress_at=at(-36_400), last_step_at=at(-36_000), scheduled_at=at(-36_500),
         started_at=at(-36_450))), slack=600), pod(), reports=[reported(step=36_900, step_at=at(0),
         checkpoint=SavedCheckpoint(36_900, "s3://b/p/data/9", 1, at(0)))],
         then={"state": RUNNING, "successor": None}),
    Case("Deadline: no operator listened for hours, and no report has arrived yet", snapshot(under("Deadline",
         status(training()), slack=600, **ALONE), pod(), listening_since=at(-10)), (),
         {"state": RUNNING, "wake": at(110)}),
    Case("Deadline: no report arrives", snapshot(under("Deadline", status(training()), slack=600, **ALONE), pod(),
         listening_since=at(-120)), ("no time to lose",), {"state": DRAINING}),
    Case("Deadline: no slack is left, and it starts; the program is known to take the fence", snapshot(under("Deadline",
         status(attempt(), fenced_program=SAME, tiers=(known(state=None),)), slack=1500), pod(), reports=[LOADS]),
         ("another tier", "create beside"), {"state": RUNNING, "follows": (ACQUIRING, "dedicated", 1)}),
    Case("Deadline: no slack is left, and it starts; nothing is known of the program", snapshot(under("Deadline",
         status(attempt(), tiers=(known(state=None),)), slack=1500), pod(), reports=[LOADS]),
         ("no time to lose",), {"state": DRAINING, "follows": (INTENDED, "dedicated", None)}),
    case("Deadline: its successor was given up just now", under("Deadline", status(training(return_after=at(60))),
         slack=600), pod(), trace=("no time to lose", "create beside"),
         then={"state": DRAINING, "follows": (ACQUIRING, "dedicated", 1)}),
    case("Deadline: no successor is allowed, but saves fail", under("Deadline", status(training()), slack=600, **ALONE),
         pod(), reports=[reported(step=900, step_at=at(0), save_error="denied")], then={"state": RUNNING}),
    case("Deadline: it waited for Spot, and there is no time any more", under("Deadline", status(training(),
         successor=follower(ACQUIRING)), slack=600), pod(), pending(2),
         trace=("successor not wanted", "another tier"), then={"follows": (INTENDED, "dedicated", None)}),
    case("Deadline: it has left for the deadline", under("Deadline", status(training(state=DRAINING, drain=drain(
         reason="KeepingDeadline", kind=EndKind.STOPPED)), successor=attempt(2, INTENDED, **ON_DEDICATED)), slack=600),
         ended(1, 0, DRAINED), trace=("ended", "create"), then={"tier": "dedicated", "counts": (0, 0, 0)}),
    case("Deadline: Spot is watched from dedicated", under("Deadline", status(training("dedicated"))), pod(),
         trace=("another tier", "create beside"), then={"follows": (ACQUIRING, "spot", 1), "events": []},
         cluster=nodes(node("n1", labels={"tier": "dedicated"}), without=("n2", "n3", "n4"))),
    case("Deadline: Spot stands for long", under("Deadline", status(training("dedicated"))), pod(),
         trace=("another tier", "create beside"), then={"follows": (ACQUIRING, "spot", 1), "events": ["TierChosen"]}),
    case("Deadline: Spot stands, but it is tried again later", under("Deadline", status(training("dedicated",
         return_after=at(30)))), pod(), then={"successor": None, "wake": at(30)}),
    case("Cheapest: back to Spot", under("Cheapest", status(training("dedicated"))), pod(),
         trace=("another tier", "create beside"), then={"follows": (ACQUIRING, "spot", 1)}),
    case("Deadline: on a notice, where the next attempt goes", under("Deadline", status(training(), tiers=(known(),)),
         slack=3000), pod(deleted_at=at(20)), trace=("notice", "create beside"),
         then={"state": DRAINING, "follows": (ACQUIRING, "dedicated", 1)}, cluster=DEDICATED_STANDS),
    case("Deadline: no node for the next attempt, and the node goes", under("Deadline", status(training(state=DRAINING,
         drain=drain()), successor=follower(ACQUIRING, created_at=at(-90), acquire_deadline=at(900)), tiers=(known(),)),
         slack=3000), pod(), pending(2), trace=("no node for successor",),
         then={"follows": (INTENDED, "dedicated", None)}, cluster=nodes(without=("n2", "n3", "n4"))),
    # --- the budget
    case("budget: nothing may be spent", under("Ordered", budget="0"), trace=("suspended",),
         then={"phase": "Suspended", "reason": "BudgetExceeded", "created": [],
               "events": ["Suspended", "BudgetAtRisk"]}),
    case("budget: used up", under("Ordered", status(training()), budget="0.2"), pod(), trace=("suspend",),
         then={"state": DRAINING, "reason": "BudgetExceeded", "successor": None, "orders": [("drain", 1)],
               "deadline": at(100), "events": ["BudgetExceeded", "BudgetAtRisk"]}),
    case("budget: used up while the pod waits", under("Ordered", status(attempt(2, ACQUIRING), ledger=SPENT),
         budget="0.25"), pending(2), trace=("given up before start", "suspended"),
         then={"phase": "Suspended", "deleted": [("u-2", None)], "end": (2, EndKind.STOPPED, "BudgetExceeded")}),
    case("budget: it has left", under("Ordered", status(training(state=DRAINING, drain=drain(reason="BudgetExceeded",
         kind=EndKind.STOPPED))), budget="0.2"), ended(1, 0, DRAINED), trace=("ended", "suspended"),
         then={"phase": "Suspended", "reason": "BudgetExceeded", "counts": (0, 0, 0), "created": []}),
    case("budget: a successor costs too", under("Cheapest", status(training(), successor=follower(RUNNING,
         **ON_DEDICATED)), budget="0.35"), pod(), pod(2, node="n2"), trace=("suspend", "successor not wanted"),
         then={"state": DRAINING, "successor": None}),
    case("budget: not raised", under("Ordered", status(**PAUSED), budget="0.25"), then={"phase": "Suspended"}),
    case("budget: raised", under("Ordered", status(**PAUSED), budget="9"), trace=("resume", "begin", "create"),
         then={"tier": "spot", "attempt": 2}),
    case("budget: raised, but suspended by its user", under("Ordered", status(**PAUSED), budget="9", suspend=True),
         then={"phase": "Suspended", "reason": "Suspended"}),
    case("budget: far from it", under("Ordered", status(training()), budget="900"), pod(), then={"state": RUNNING}),
]  # fmt: skip
