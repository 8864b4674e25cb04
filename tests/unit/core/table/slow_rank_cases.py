"""Cases for the rows about slow ranks."""

from dataclasses import replace

from tests.support.decisions.snapshots import SAME, nodes, placed, pod, report, snapshot, stepped
from tests.unit.core.table.gang_cases import BOTH, TRAINS, member, says
from tests.unit.core.table.gang_cases import given as given_two
from tests.unit.core.table.row_cases import ACQUIRING, DRAINING, FENCED, RUNNING, STARTING, Case
from tests.unit.core.table.successor_cases import ALONE, BESIDE, HOLDS, SAVED, follower, given

from holdfast.api.attempt import EndKind, MemberGroup
from holdfast.core.observe.report import SlowRank

SLOW = SlowRank(rank=3, pod=0, own=0.9, others=0.5, step=1.0)
SAYS = stepped(checkpoint=SAVED, slow_ranks=(SLOW,))
FAST = stepped(checkpoint=SAVED)
REPLACE = {"failure": {"slowRanks": {"action": "Replace"}}}
ASKED = {"spec": REPLACE}
REPLACES = FENCED.model_copy(update={"replaces": "n1"})
AWAY = {"avoid_nodes": ("n1",)}

# Of two nodes, rank 1 is on n2, and slow.
PODS = (member(1, 0, made_from=SAME), member(1, 1, made_from=SAME))
OF_TWO = replace(SAYS, pod_uid="u-vit-1-0", slow_ranks=(replace(SLOW, pod=1),))
KEEPS = (MemberGroup(born=1, ranks="0"), MemberGroup(born=2, ranks="1"))

CASES = (
    Case("a rank is slow", snapshot(given(FENCED, **ASKED), pod(), reports=[SAYS]), ("slow rank", "create beside"),
         {"state": RUNNING, "follows": (ACQUIRING, "spot", 1), "created": [2], "orders": [], "phase": "Running",
          "events": ["ReplacingSlowNode", "SlowRank"]}),
    Case("a rank is slow, and another node is not wanted", snapshot(given(FENCED), pod(), reports=[SAYS]),
         (), {"state": RUNNING, "created": [], "events": ["SlowRank"]}),
    Case("a rank is slow, and a job may not have two nodes",
         snapshot(given(FENCED, spec=ALONE | REPLACE), pod(), reports=[SAYS]), (),
         {"state": RUNNING, "created": [], "events": ["SlowRank"]}),
    Case("a rank is slow, and its tier has no other node",
         snapshot(given(FENCED, **ASKED), pod(), reports=[SAYS], cluster=nodes(without=("n2", "n3", "n4"))), (),
         {"state": RUNNING, "created": []}),
    Case("a rank is slow, and what it does is not saved",
         snapshot(given(FENCED, **ASKED), pod(), reports=[replace(SAYS, save_error="full")]), (), {"created": []}),
    Case("the other node starts", snapshot(given(REPLACES, follower(STARTING, **AWAY), **ASKED), pod(),
         placed(2, node="n2"), reports=[SAYS]), (),
         {"state": RUNNING, "successor": 2}),
    Case("the other node is not there yet",
         snapshot(given(REPLACES, follower(ACQUIRING, **AWAY), **ASKED), pod(),
                  pod(2, node=None, phase="Pending", trainer=None), reports=[SAYS]), (),
         {"state": RUNNING, "successor": 2}),
    Case("the other node is ready",
         snapshot(given(REPLACES, follower(RUNNING, **AWAY), **ASKED), pod(), BESIDE, reports=[SAYS, HOLDS]),
         ("slow node left",), {"state": DRAINING, "orders": [("drain", 1)], "reason": "SlowRank", "deleted": []}),
    Case("the rank is fast again before the other node is ready",
         snapshot(given(REPLACES, follower(RUNNING, **AWAY), **ASKED), pod(), BESIDE, reports=[FAST, HOLDS]),
         ("fast again",), {"state": RUNNING, "successor": None, "end": (2, EndKind.STOPPED, "NotNeeded"), "orders": [],
          "events": ["SlowRankRecovered"]}),
    Case("a new operator has no report yet",
         snapshot(given(REPLACES, follower(RUNNING, **AWAY), **ASKED), pod(), BESIDE,
                  reports=[report(2, state="waiting", fenced=False)]), (), {"state": RUNNING, "successor": 2}),
    Case("a rank of two nodes is slow",
         given_two(TRAINS, *PODS, **REPLACE, reports=[OF_TWO], members=says(*PODS, ready=False)),
         ("slow rank", "create beside"), {"state": RUNNING, "created": [2], "deleted": []}),
    Case("the new pod of two nodes is ready",
         given_two(TRAINS.model_copy(update={"replaces": "n2"}), *PODS, member(2, 1),
                   successor=follower(STARTING, nodes=2, members=KEEPS, avoid_nodes=("n2",)), **REPLACE,
                   reports=[OF_TWO], members=says(*PODS, ready=False) | says(member(2, 1))),
         ("slow node left",), {"state": DRAINING, "orders": [("drain", 1)]}),
    Case("the report is of another pod",
         given_two(TRAINS, *BOTH, **REPLACE, reports=[replace(OF_TWO, slow_ranks=())]), (),
         {"state": RUNNING, "created": []}),
)  # fmt: skip
