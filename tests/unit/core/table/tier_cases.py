"""Cases for tiers that change, or vanish, while an attempt waits or trains, and what a new start needs."""

from tests.support.decisions.snapshots import (
    SAME,
    TIERS,
    at,
    attempt,
    ended,
    job,
    node,
    nodes,
    pending,
    pod,
    profile,
    snapshot,
    status,
    tier,
)
from tests.unit.core.table.policy_cases import PAUSED
from tests.unit.core.table.row_cases import ACQUIRING, FENCED, INTENDED, RUNNING, SPOT_ITN, Case
from tests.unit.core.table.successor_cases import GOING, LEAVING, SAYS, follower, given

from holdfast.api.attempt import EndKind
from holdfast.api.knowledge import TierKnowledge
from holdfast.api.names import ANNOTATION_MOVE
from holdfast.api.status import Misconfigured

PROFILE = {"profile": "grid"}
CHANGED = {**TIERS[0], "nodeSelector": {"tier": "spot", "zone": "b"}}
ONLY_CHANGED, FIRST_CHANGED = {"tiers": [CHANGED]}, {"tiers": [CHANGED, *TIERS[1:]]}
RESTS = TierKnowledge(tier="spot", fruitless=3, rests_until=at(900))
BUDGET = {**PROFILE, "budget": "0.25"}
OVER_BUDGET = status(**PAUSED, phase="Suspended", reason="BudgetExceeded", observed_generation=1)
WRONG = Misconfigured(reason="CommandNotFound", tier="spot", pods="before", at=at(-9))
LOST = attempt(2, INTENDED, retry_at=at(-1))


def waits(**changes):
    """An attempt whose pod waits for a node."""
    return attempt(state=ACQUIRING, **changes)


CASES = (
    # --- it trains
    Case("the profile is deleted while it trains", snapshot(job(status(FENCED), capacity=PROFILE), pod(),
         reports=[SAYS]), (), {"state": RUNNING, "tier": "spot", "events": ["SettingsPending"], "deleted": []}),
    Case("its tier is removed while it trains", snapshot(job(status(FENCED), capacity={"tiers": list(TIERS[1:])}),
         pod(), reports=[SAYS]), (), {"state": RUNNING, "tier": "spot", "events": ["SettingsPending"], "deleted": []}),
    Case("its tier is changed while it trains", snapshot(job(status(FENCED), capacity=FIRST_CHANGED), pod(),
         reports=[SAYS]), (), {"state": RUNNING, "tier": "spot", "events": ["SettingsPending"], "deleted": []}),
    Case("a field of its tier is changed that makes no difference to its pod",
         snapshot(job(status(FENCED), capacity={"tiers": [{**TIERS[0], "acquireTimeout": "7m"}, *TIERS[1:]]}), pod(),
                  reports=[SAYS]), (), {"state": RUNNING, "events": []}),
    Case("it ends while the profile is gone", snapshot(job(status(FENCED, fenced_program=SAME), capacity=PROFILE),
         ended(1, 137)), ("ended",), {"state": None, "phase": "Acquiring", "reason": "ProfileNotFound", "created": []}),
    Case("the profile is there again", snapshot(job(status(attempt=1), capacity=PROFILE), profile=profile()),
         ("begin", "create"), {"tier": "spot", "created": [2]}),
    Case("the budget is used up while the profile is gone",
         snapshot(job(status(FENCED), capacity={**PROFILE, "budget": "0.1"}), pod(), reports=[SAYS]), ("suspend",),
         {"state": "Draining", "reason": "BudgetExceeded"}),
    Case("the profile is deleted while it is paused for its budget", snapshot(job(OVER_BUDGET, capacity=BUDGET)), (),
         {"phase": "Suspended", "reason": "BudgetExceeded", "events": ["SettingsPending"], "created": []}),
    Case("the profile is there again while it is paused for its budget",
         snapshot(job(OVER_BUDGET, capacity=BUDGET), profile=profile()), (),
         {"phase": "Suspended", "reason": "BudgetExceeded"}),
    Case("the budget is raised while the profile is gone",
         snapshot(job(OVER_BUDGET, capacity={**PROFILE, "budget": "9"}, meta={"generation": 2})), ("resume",),
         {"phase": "Acquiring", "reason": "ProfileNotFound"}),
    Case("the profile is deleted while it is suspended",
         snapshot(job(status(attempt=1, suspended_at=at(-9), phase="Suspended"), capacity=PROFILE, suspend=True)), (),
         {"phase": "Suspended", "reason": "Suspended", "events": ["SettingsPending"]}),
    Case("the profile is deleted while it waits for a correction",
         snapshot(job(status(attempt=1, suspended_at=at(-9), phase="Suspended", misconfigured=WRONG),
                      capacity=PROFILE)), (),
         {"phase": "Suspended", "reason": "CommandNotFound", "events": ["SettingsPending"]}),
    Case("a move while the profile is gone",
         snapshot(job(status(FENCED), capacity=PROFILE, meta={"annotations": {ANNOTATION_MOVE: "r1 dedicated"}}), pod(),
                  reports=[SAYS]), ("move",),
         {"state": RUNNING, "events": ["MoveRefused", "SettingsPending"]}),
    Case("its node will go while the profile is gone", snapshot(job(status(FENCED), capacity=PROFILE), pod(),
         cluster=GOING, reports=[SAYS]), ("departs",), {"state": RUNNING, "successor": None}),
    # --- it waits for a node
    Case("the profile is deleted while it waits for a node", snapshot(job(status(waits()), capacity=PROFILE),
         pending()), (), {"state": ACQUIRING, "events": ["SettingsPending"], "deleted": []}),
    Case("the only tier is changed while it waits for a node", snapshot(job(status(waits()), capacity=ONLY_CHANGED),
         pending()), ("no node in time",),
         {"state": INTENDED, "attempt": 2, "tier": "spot", "deleted": [("u-1", None)],
          "end": (1, EndKind.STOPPED, "TierRemoved")}),
    Case("its tier is changed while it waits for a node away from another",
         snapshot(job(status(waits(avoid_nodes=("n1",))), capacity=FIRST_CHANGED), pending()), ("no node in time",),
         {"attempt": 2, "tier": "spot", "avoid": ("n1",)}),
    # --- it waits to begin
    Case("the profile is deleted while it waits to begin", snapshot(job(status(LOST), capacity=PROFILE)), (),
         {"state": INTENDED, "attempt": 2, "reason": "ProfileNotFound", "created": [], "events": ["ProfileNotFound"]}),
    Case("the profile is there again while it waits to begin",
         snapshot(job(status(LOST), capacity=PROFILE), profile=profile()), ("create",), {"created": [2]}),
    Case("its tier is changed while it waits to begin", snapshot(job(status(LOST), capacity=ONLY_CHANGED)),
         ("no node in time", "create"), {"attempt": 3, "created": [3]}),
    # --- a successor
    Case("the follower's tier is described again while the node goes",
         snapshot(given(LEAVING, follower(ACQUIRING), spec={"capacity": ONLY_CHANGED}), pod(), pending(2),
                  cluster=GOING, reports=[SAYS]), ("no node for successor",),
         {"successor": 3, "follows": (INTENDED, "spot", None), "deleted": [("u-2", None)]}),
    Case("the profile is deleted while a follower waits for a node and the node goes",
         snapshot(given(LEAVING, follower(ACQUIRING), spec={"capacity": PROFILE}), pod(), pending(2), cluster=GOING,
                  reports=[SAYS]), (), {"successor": 2, "deleted": []}),
    Case("the profile is deleted while a follower waits for a better tier",
         snapshot(given(FENCED.model_copy(update={"tier": tier("dedicated")}), follower(ACQUIRING),
                        spec={"capacity": PROFILE}), pod(), pending(2), reports=[SAYS]), ("successor not wanted",),
         {"successor": None, "deleted": [("u-2", None)]}),
    Case("it ends without progress while the profile is gone and a follower waits for a tier that has to rest",
         snapshot(given(attempt(fenced=True), follower(INTENDED), spec={"capacity": PROFILE}, tiers=(RESTS,)),
                  ended(1, 137)), ("ended",),
         {"state": INTENDED, "attempt": 2, "reason": "ProfileNotFound", "created": []}),
    Case("the node is lost while the profile is gone and a follower waits to begin",
         snapshot(given(LEAVING, follower(INTENDED), spec={"capacity": PROFILE}), pod(),
                  cluster=nodes(node("n2", taints=(SPOT_ITN,)), without=("n1",)), reports=[SAYS]), ("node gone",),
         {"state": INTENDED, "attempt": 2, "reason": "ProfileNotFound", "created": []}),
)  # fmt: skip
