"""Why a job is where it is: the policy's answer with its figures, in words and as JSON."""

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console
from tests.support.decisions.snapshots import NOW, TIERS, at, attempt, job, node, pod, profile, snapshot
from tests.support.decisions.snapshots import status as a_status
from tests.support.decisions.tier_views import measured
from tests.unit.core.table.policy_cases import PAUSED, SAYS, WORK, known, training, under

from holdfast.api.attempt import AttemptState
from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.status import CheckpointStatus, DecisionNote, Ledger, Misconfigured, Phase, Progress, TierTotals
from holdfast.core.capacity.choose import choose
from holdfast.core.decide import decide
from holdfast.core.observe.nodes import ClusterView
from holdfast_cli.why.as_json import as_json
from holdfast_cli.why.reasons import Reasons, find_reasons
from holdfast_cli.why.screen import show

HOUR = 3600
NODES = [node("n1"), node("d1", labels={"tier": "dedicated"})]
UNSAVED = {"action": "Finish", "message": "NothingSaved: no save of it", "at": "2026-11-21T09:00:00Z"}
WRONG = Misconfigured(reason="NoCheckpoint", message="none", tier="spot", pods="0", at=at(-60))
LEDGER = Ledger(
    attempts=1,
    spent=Decimal("14.20"),
    saved_versus_dedicated="28.40",
    goodput="0.913",
    by_tier=(TierTotals(tier="spot", kind="Spot", attempts=1, spent=Decimal("14.20"), node_hours=Decimal("12.8")),),
)


def running(**changes: Any):
    """On Spot for 10 minutes; what is known of Spot was measured, of the others it was not."""
    spot = known(
        state=Seen.UP, since=-2 * HOUR, observation="Billed", acquire=measured(60, 120, 180), start=measured(240),
        interruptions=2, node_time=at(14 * HOUR) - NOW,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "phase": Phase.RUNNING,
        "tier": "spot",
        "node": "n1",
        "tiers": (spot,),
        "decision": DecisionNote(action="Run", message="spot: up for 1.9 h, stay", at=at(-300)),
        "next": "The job trains. If its node is taken away, it saves, moves, and resumes at the step that it saved.",
        "progress": Progress(step=900, steps=100_000),
        "checkpoint": CheckpointStatus(step=880, uri="s3://x", committed_at=at(-20)),
        "ledger": LEDGER,
    }
    return a_status(changes.pop("current", training()), **{**fields, **changes})


def asked(given_job, nodes=NODES, given_profile=None) -> Reasons:
    return find_reasons(given_job, given_profile, nodes, NOW)


def shown(found: Reasons, width: int = 80) -> str:
    out = Console(width=width, force_terminal=False, highlight=False)
    with out.capture() as captured:
        show(out, found)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


@pytest.fixture
def in_utc(monkeypatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_the_whole_screen_at_80_columns():
    """Breaks if a figure is missing, is another one than the policy was asked with, or does not fit."""
    screen = shown(asked(under("Deadline", running(), budget="100")))
    assert screen.partition("\n\nTIMELINE\n")[0].splitlines() == SCREEN.strip("\n").splitlines()


SCREEN = """
vision/vit  Running  tier spot, node n1, attempt 1
decided 5m00s ago: Run: spot: up for 1.9 h, stay
The job trains. If its node is taken away, it saves, moves, and resumes at the
step that it saved.

WHAT THE POLICY SAYS NOW
  Deadline: spot: up for 2.0 h, stay; 10.0 h of slack for 27.5 h of work
  asked again within 1h00m, or when a tier comes up, goes out or is lost

WHAT A TIER IS WORTH
                                                                       HOUR OF
  TIER         KIND        PRICE  SPEED   STEP  INTERRUPTIONS    LIFE     WORK
  ────────────────────────────────────────────────────────────────────────────
  ● spot       Spot         1.02   1.00  1.00s    2 in 14h00m   5h20m     1.06
    dedicated  Dedicated    3.06  ~1.00      -        0 in 0s  ~30d0h     3.07
    cpu        CPU        0.2000  ~0.02      -        0 in 0s  ~30d0h    10.08
  ● the job is here   SPEED: relative to spot   ~ assumed, not measured
  INTERRUPTIONS in node time   LIFE expected of a node   HOUR OF WORK: its cost

WHICH TIERS ARE UP, AND HOW SOON TRAINING STARTS
  TIER         NOW       NODES        WATCHING        ACQUIRE     CHANGEOVER
  ──────────────────────────────────────────────────────────────────────────
  ● spot       up 2h00m  ready 2h30m  billed      2m00s–4m00s   6m00s–12m00s
    dedicated  up 2h30m  ready 2h30m  free       ~1m00s–5m00s  ~5m00s–13m00s
    cpu        unknown   none         billed    ~1m00s–15m00s  ~5m00s–23m00s
  ACQUIRE until there is a node, CHANGEOVER until the first step: typical–worst
  WATCHING: whether it costs money to see that the tier is up again
  NODES: since when enough can take the pods; what others hold is not known

WORK, TIME AND MONEY
  work left          1d3h: 99,100 of 100,000 steps, 1.00s each on spot
  work at risk       13m10s, and a changeover
  deadline           2026-11-22 22:31:40, in 1d13h
  slack              10h00m can be wasted before only dedicated still meets the
                     deadline; 26m10s of it is reserved for the move there
  deadline at risk   no (InTime): the deadline is met even without Spot nodes
  budget             14.37 of 100 spent; finishing on spot costs about 29.23;
                     85.63 left
  cost               14.37 so far, 43.59 expected in the end
  savings            14.03 more than on dedicated only
"""


@pytest.mark.parametrize("policy", ["Ordered", "Cheapest", "Deadline"])
def test_it_is_what_the_operator_says(policy):
    """Breaks if the policy is not asked as core asks it: with another grid, other nodes, another status."""
    given = under(policy, running(), slack=3000)
    snap = snapshot(given, cluster=ClusterView(NODES))
    answer = asked(given).answer
    assert answer == choose(snap, given.status, snap.grid)
    assert answer is not None
    assert answer.policy == policy


@pytest.mark.parametrize("slack", [36_000, -7200])
def test_risk_budget_and_forecast_are_those_of_the_operator(slack):
    given = under("Deadline", running(), slack=slack, budget="30")
    decided = decide(snapshot(given, pod(), reports=[SAYS], cluster=ClusterView(NODES))).status
    conditions = {one.type: one for one in decided.conditions}
    found = asked(given)
    assert found.risk is not None
    assert found.budget is not None
    assert found.risk.message == conditions["DeadlineAtRisk"].message
    assert found.budget.reason == conditions["BudgetAtRisk"].message
    assert found.forecast == decided.forecast


def test_a_tier_that_left_the_grid_is_shown_as_long_as_the_job_is_on_it():
    found = asked(under("Deadline", running(), tiers=list(TIERS[1:])))
    assert [view.name for view, _ in found.rows] == ["spot", "dedicated", "cpu"]


def test_where_nodes_may_not_be_seen_it_says_so_and_goes_on():
    """Breaks if a tier counts as out only because the user may not list nodes."""
    tiers = [{**TIERS[0], "observation": "Free"}, TIERS[1]]
    given = under("Deadline", running(current=None, tiers=(known(state=None),)), tiers=tiers)
    seen = {view.name: view for view, _ in asked(given, nodes=None).rows}
    assert seen["spot"].available is None
    assert {view.name: view for view, _ in asked(given, nodes=[]).rows}["spot"].available is False
    screen = shown(asked(given, nodes=None))
    assert "nodes were not read" in screen
    assert "not seen" in screen
    assert "not read" not in shown(asked(given, nodes=[]))
    shared = profile(*tiers)
    of_profile = job(given.status, capacity={"profile": "grid"})
    assert asked(of_profile, None, shared).rows[0][0].available is None


def test_what_a_policy_lacks_is_named():
    screen = shown(asked(under("Deadline", a_status(None))), width=100)
    assert "Ordered, in place of Deadline: spot: the first that may be up" in screen
    assert "the time of a step is not known before the first steps are done; until then tiers" in screen
    assert "unknown (PaceUnknown)" in screen


def test_a_job_without_a_status():
    screen = shown(asked(under("Deadline")), width=120)
    assert "no decision yet" in screen
    assert "The operator has not read the job yet" in screen
    assert "→ spot" in screen
    assert "TIMELINE" not in screen


def test_a_profile_that_is_not_there():
    found = asked(job(running(current=None), capacity={"profile": "gone"}))
    screen = shown(found)
    assert found.answer is None
    assert "capacity profile gone does not exist" in screen
    assert "decided 5m00s ago: Run: spot: up for 1.9 h, stay" in screen
    assert as_json(found)["choice"] is None


def test_a_profile_that_was_deleted_while_the_job_trains():
    """Breaks if the screen says nothing of the tier that the job is on, or shows it as one of the grid."""
    screen = shown(asked(job(running(), capacity={"profile": "gone"})), width=160)
    assert "capacity profile gone does not exist: attempt" in screen
    assert "● spot (removed)" in screen


@pytest.mark.parametrize(
    ("status", "spec", "wanted"),
    [
        ({"phase": Phase.COMPLETED, "current": None}, {}, "There is nothing to choose: training is complete."),
        (
            {"phase": Phase.COMPLETED, "current": None, "reason": "NothingSaved", "decision": UNSAVED},
            {},
            "Finish: NothingSaved: no save of it",
        ),
        ({"phase": Phase.FAILED, "current": None, "reason": "MaxFailures"}, {}, "has failed for good: MaxFailures."),
        (
            {"phase": Phase.SUSPENDED, "current": None, "misconfigured": WRONG},
            {},
            "the job needs a correction: NoCheckpoint: none.",
        ),
        ({"phase": Phase.SUSPENDED, "current": None}, {"suspend": True}, "There is nothing to choose: spec.suspend is"),
    ],
)
def test_where_nothing_is_to_be_chosen_the_ledger_is_shown(status, spec, wanted):
    found = asked(under("Deadline", running(**status), **spec))
    screen = shown(found)
    assert wanted in screen
    assert "14.20 spent" in screen
    assert "WHAT A TIER IS WORTH" not in screen
    assert as_json(found)["idle"]
    assert as_json(found)["tiers"] == []


def test_a_job_that_waits_for_its_budget_says_what_would_be_needed():
    paused = {**PAUSED, "phase": Phase.SUSPENDED, "reason": "BudgetExceeded"}
    screen = shown(asked(under("Ordered", a_status(**paused), budget="0.25")), width=120)
    assert "There is nothing to choose: the job is suspended: BudgetExceeded." in screen
    assert "starting for" in screen
    assert "0.0120 left" in screen


def test_a_pod_that_waits():
    waiting = attempt(2, AttemptState.ACQUIRING)
    said = "The job waits until 2026-11-21T09:04:50Z for a node of tier spot."
    found = asked(under("Ordered", running(current=waiting, phase=Phase.ACQUIRING, node=None, next=said)))
    assert said in shown(found)


def test_where_it_is_to_go_and_what_is_watched_have_signs():
    leaves = shown(asked(under("Deadline", running(), slack=600)))
    assert "● spot" in leaves
    assert "→ dedicated" in leaves
    watches = under("Deadline", running(current=training("dedicated"), tiers=(known(state=None),)))
    screen = shown(asked(watches, nodes=[node("d1", labels={"tier": "dedicated"})]))
    assert "● dedicated" in screen
    assert "? spot" in screen


def test_a_deadline_that_will_be_missed():
    screen = shown(asked(under("Deadline", running(), slack=-7200)))
    assert "late by 2h" in screen
    assert "yes (Late): late by" in screen


def test_json_has_every_figure_under_names_that_stay():
    found = as_json(asked(under("Deadline", running(), budget="100")))
    assert list(found) == [
        *("job", "at", "phase", "attempt", "tier", "node", "decision", "idle", "nodesLookedAt", "policy", "choice"),
        *("work", "deadline", "budget", "cost", "tiers"),
    ]
    assert found["decision"] == {"action": "Run", "message": "spot: up for 1.9 h, stay", "at": "2026-11-21T08:55:00Z"}
    assert found["policy"] == {"wanted": "Deadline", "inForce": "Deadline", "missing": None}
    assert found["choice"]["tier"] == "spot"
    assert found["choice"]["askedAgainAt"] == "2026-11-21T10:00:00Z"
    assert found["work"] == {
        "goalSteps": 100_000,
        "doneSteps": 900,
        "referenceTier": "spot",
        "secondsPerStep": 1.0,
        "leftSeconds": WORK,
        "atRiskSeconds": 790.0,
        "changingSeconds": 0.0,
    }
    assert found["deadline"]["slackSeconds"] == 36_000
    assert found["deadline"]["risk"]["reason"] == "InTime"
    assert found["budget"]["amount"] == "100"
    assert found["cost"]["savedVersusDedicated"] is not None
    spot = found["tiers"][0]
    assert (spot["name"], spot["here"], spot["available"], spot["availabilityAgeSeconds"]) == ("spot", True, True, 7200)
    assert spot["acquireSeconds"] == {"typical": 120, "worst": 240, "measured": True}
    assert spot["startSeconds"] == {"typical": 240, "worst": 480, "measured": True}
    assert spot["changeoverSeconds"] == {"typical": 360, "worst": 720}
    assert (spot["interruptions"], spot["nodeTimeSeconds"], spot["lifeSeconds"]) == (2, 14 * HOUR, 16 * HOUR / 3)
    assert spot["readyNodeSeconds"] == 9000
    assert (spot["observation"], found["tiers"][1]["observation"]) == ("Billed", "Free")
    assert found["tiers"][1]["acquireSeconds"]["measured"] is False


def test_json_knows_no_infinity():
    found = as_json(asked(job(a_status(None, tiers=(TierKnowledge(tier="spot"),)))))
    assert found["work"]["leftSeconds"] is None
    assert found["deadline"] is None
