"""What a job will cost: the figures are those of its runs, and its runs are the operator's own decisions."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any

import pytest

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.plan import (
    LINGER,
    MONTH,
    NEVER,
    Draw,
    Market,
    Plan,
    Way,
    lease,
    one_node,
    run,
    simulate,
    summarize,
)
from holdfast_cli.simulate.replay import Node, Schedule, replay
from holdfast_cli.simulate.traces import Trace
from holdfast_cli.simulate.world import BEGIN

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
TOOK = Durations(acquire=MINUTE, start=3 * MINUTE, restore=30 * SECOND, pace=6 * SECOND, save=20 * SECOND)
STORMY = Market(Climate(up=3.0, down=1.5), notice=30 * SECOND)
TIERS = (
    {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "1"},
    {"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "3"},
)


def job(steps: int = 6000, nodes: int = 1, **capacity: Any) -> TrainingJob:
    tiers = [{**tier, "nodeSelector": {"tier": tier["name"]}} for tier in TIERS]
    spec = {
        "trainer": {"image": "train:1", "command": ["train"], "nodes": nodes},
        "capacity": {"tiers": tiers, "budget": "1", **capacity},
        "checkpoint": {"storage": {"volumeClaim": {"name": "claim", "path": "job"}}},
        "goal": {"steps": steps},
        "suspend": True,
        "activeDeadline": "1m",
    }
    return TrainingJob.parse({"metadata": {"name": "job", "namespace": "n", "uid": "u"}, "spec": spec})


def plan(market: Market = STORMY, given: TrainingJob | None = None, **changes: Any) -> Plan:
    simple, profile = one_node(given or job(), None)
    both = {"spot": TOOK, "dedicated": TOOK}
    return Plan(simple, profile, both, {"spot": market}, **{"period": 10 * MINUTE, "draws": 6, **changes})


# Breaks if preparation, the last save, or a step is not paid for, or paid for twice.
def test_alone_on_one_tier_it_takes_and_costs_the_sum_of_its_durations() -> None:
    found = run(plan(), Way("Ordered", only="dedicated"), 0)
    took = TOOK.start + TOOK.restore + 6000 * TOOK.pace + TOOK.save
    assert found.took == TOOK.acquire + took
    assert found.cost == pytest.approx(3 * Decimal(took / HOUR), abs=Decimal("0.001"))
    assert found.hours == {"dedicated": pytest.approx(took / HOUR, abs=1e-3)}
    assert found.interruptions == 0


# Breaks if the plan decides, draws or bills otherwise than a replay of the same job on the same nodes.
@pytest.mark.parametrize("policy", ["Ordered", "Cheapest", "Deadline"])
def test_a_run_is_the_replay_of_the_job_on_the_drawn_market(policy: Any) -> None:
    way = Way(policy, 14 * HOUR if policy == "Deadline" else None)
    found = [run(plan(), way, number) for number in range(3)]
    assert sum(one.interruptions for one in found) > 0
    for number, one in enumerate(found):
        again = job(policy=policy, **({"deadline": "2026-01-01T14:00:00Z"} if way.deadline else {}))
        clean = again.spec.model_copy(update={"suspend": False, "active_deadline": None})
        clean = clean.model_copy(update={"capacity": clean.capacity.model_copy(update={"budget": None})})
        nodes = [Node("spot", "spot", STORMY.draw(f"1 spot {number}")), Node("dedicated", "dedicated")]
        schedule = Schedule(nodes, period=10 * MINUTE)
        world = replay(again.model_copy(update={"spec": clean}), schedule, {"spot": TOOK, "dedicated": TOOK})
        assert one.cost == world.status.ledger.spent
        assert one.took == world.now - BEGIN


# Breaks if a node that is left in time after its notice does not count as taken.
def test_an_interruption_counts_whether_or_not_the_notice_was_long_enough() -> None:
    gone = Trace("zone", 600, bytes([1, 1, 1, 1, 0, 0]))
    late, early = (run(plan(Market(traces=(gone,), notice=one)), Way("Ordered"), 0) for one in (SECOND, 5 * MINUTE))
    assert late.interruptions > 0 and early.interruptions > 0
    assert early.took < late.took, "nothing is trained again"


def test_the_deadline_is_kept_and_more_time_costs_less() -> None:
    ways = [Way("Deadline", hours * HOUR) for hours in (12, 24)]
    rows = [summarize(way, [one for _, one in simulate(plan(draws=3), [way])], deadline=way.deadline) for way in ways]
    assert [row.late for row in rows] == [0, 0]
    costs = [row.cost or Decimal(0) for row in rows]
    assert costs == sorted(costs, reverse=True)


# Breaks if other processes change the result, or its order.
def test_more_processes_give_the_same() -> None:
    ways = [Way("Ordered"), Way("Ordered", only="dedicated")]
    assert list(simulate(plan(draws=2), ways, workers=2)) == list(simulate(plan(draws=2), ways))


def test_every_policy_meets_the_same_markets_and_every_draw_another_one() -> None:
    def first(seed: str, market: Market) -> list[Any]:
        return list(islice(market.draw(seed), 5))

    assert first("1 spot 0", STORMY) == first("1 spot 0", STORMY) != first("1 spot 1", STORMY)
    recorded = Market(traces=(Trace("zone", 600, bytes([1, 0, 1, 1] * 50)),), notice=MINUTE)
    spells = first("1 spot 0", recorded)
    assert spells == first("1 spot 0", recorded) != first("1 spot 1", recorded)
    many = list(islice(recorded.draw("1 spot 0"), 1000))  # far more than the trace has
    assert all(one.end and one.end <= other.start for one, other in pairwise(many))


def test_a_tier_that_is_never_lost_needs_one_draw() -> None:
    assert plan(Market()).draws_of(Way("Ordered")) == 1
    assert plan().draws_of(Way("Ordered")) == 6
    assert plan().draws_of(Way("Ordered", only="dedicated")) == 1
    assert run(plan(Market()), Way("Ordered"), 0).hours.keys() == {"spot"}


# Breaks if nodes that an autoscaler keeps for a while after they are idle cost nothing.
def test_idle_nodes_of_an_autoscaler_are_paid_for() -> None:
    given = job(returnPolicy="Eager", tiers=[{**tier, "nodeSelector": {}, "observation": "Billed"} for tier in TIERS])
    back = (Spell(end=2 * HOUR), Spell(3 * HOUR))  # so the job leaves the dedicated node

    class Returning(Market):
        def draw(self, seed: str) -> Iterator[Spell]:
            return iter(back)

    made = plan(Returning(), given)
    nodes = [
        Node("spot", "spot", back, stands=False, linger=LINGER),
        Node("dedicated", "dedicated", stands=False, linger=LINGER),
    ]
    world = replay(made.job, Schedule(nodes, period=10 * MINUTE), {"spot": TOOK, "dedicated": TOOK})
    idle = sum((one.cost for one in world.bill if one.idle), Decimal(0))
    assert idle > 0
    assert run(made, Way("Ordered"), 0).cost == world.status.ledger.spent + idle


def test_several_nodes_cost_as_much_as_they_do_together() -> None:
    alone = run(plan(), Way("Ordered", only="dedicated"), 0)
    four = run(plan(given=job(nodes=4)), Way("Ordered", only="dedicated"), 0)
    assert (four.took, four.cost) == (alone.took, pytest.approx(4 * alone.cost, abs=Decimal("0.001")))


# Breaks if a way without a node that stays is called done, or stops the plan.
def test_a_job_that_is_never_done_has_no_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_cli.simulate.plan.LIMIT", timedelta(days=20))
    gone = Market(traces=(Trace("zone", 600, bytes([0] * 499 + [1])),))  # never long enough to train
    only = job()
    capacity = only.spec.capacity.model_copy(update={"tiers": only.spec.capacity.tiers[:1]})
    only = only.model_copy(update={"spec": only.spec.model_copy(update={"capacity": capacity})})
    found = run(plan(gone, only), Way("Ordered"), 0)
    assert found == NEVER
    row = summarize(Way("Ordered"), [found], deadline=HOUR)
    assert (row.finish, row.cost, row.late) == (None, None, 1)


def test_rows_show_the_middle_the_tail_and_what_is_late_or_too_expensive() -> None:
    draws = [Draw(hours * HOUR, Decimal(hours), hours % 2, {"spot": hours}) for hours in range(1, 21)]
    row = summarize(Way("Ordered"), [*draws[::-1]], deadline=15 * HOUR, budget=Decimal(18))
    assert (row.finish, row.finish_p95, row.cost, row.cost_p95) == (11 * HOUR, 19 * HOUR, 11, 19)
    assert (row.interruptions, row.late, row.over_budget, row.hours) == (0.5, 0.25, 0.1, {"spot": 10.5})


def test_a_lease_is_cheaper_from_some_hours_of_the_month_on() -> None:
    found = lease("v100", Decimal("3.06"), Decimal(1100), MONTH + HOUR, 2)
    assert found.hours == pytest.approx(359.5, abs=0.1)
    assert found.share == pytest.approx(0.49, abs=0.01)
    assert (found.months, found.cost) == (2, Decimal(4400))


def test_a_profile_counts_like_tiers_of_the_job() -> None:
    profile = CapacityProfile.parse({"metadata": {"name": "grid"}, "spec": {"tiers": list(TIERS)}})
    given = job()
    capacity = given.spec.capacity.model_copy(update={"profile": "grid", "tiers": ()})
    given = given.model_copy(update={"spec": given.spec.model_copy(update={"capacity": capacity})})
    simple, priced = one_node(given, profile)
    made = Plan(simple, priced, {"spot": TOOK, "dedicated": TOOK}, {"spot": STORMY}, period=10 * MINUTE)
    way = Way("Ordered", only="dedicated")
    assert run(made, way, 0).cost == run(plan(), way, 0).cost
