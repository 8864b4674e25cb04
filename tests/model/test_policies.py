"""A job under a policy lives through half a day in which Spot comes and goes: decisions, and a world that obeys."""

import random
from datetime import timedelta

import pytest
from tests.model.operator_model import Operator
from tests.model.world import World
from tests.support.decisions import ledger_replay
from tests.support.decisions.snapshots import NOW, PRICES, TIERS

from holdfast.api.scalars import format_time
from holdfast.api.status import Phase, TrainingJobStatus

MINUTE = timedelta(minutes=1)
WORK = timedelta(hours=8)  # at a step a second
DEDICATED_ONLY = 8 * 3.06


def live(
    seed: int, hours: float, odds: float, tick: timedelta = MINUTE, watched: float | None = None, **capacity: str
) -> tuple[TrainingJobStatus, timedelta]:
    """The status in the end, and how long it took; at every tick Spot comes or goes with these odds.

    A job that does not end is watched for `watched` hours; twice as long as to its deadline if that is None.
    """
    end = NOW + timedelta(hours=2 * hours if watched is None else watched)
    deadline = format_time(NOW + timedelta(hours=hours))
    steps = int(WORK.total_seconds())
    world = World(
        capacity={"tiers": list(TIERS[:2]), "policy": "Deadline", "deadline": deadline, **capacity},
        goal={"steps": steps},
    )
    world.goal, chance = steps, random.Random(seed)
    operator = Operator(world)
    for name in ("s2", "c1", "c2"):
        world.remove_node(name)
    while world.now < end:
        for _ in range(2):
            operator.sync_jobs()
            operator.sync_pods()
            operator.sync_nodes()
            operator.operate("lib", 99)
            world.schedule()
            world.kubelets()
        for pod in [pod for pod in world.pods.values() if pod.job == "lib" and pod.process == "running"]:
            steps = int(tick.total_seconds()) if pod.first_step is not None else 1  # a first step is reported at once
            world.train(pod, steps)
            if pod.node in world.nodes:
                operator.hear(pod)
        status = world.jobs["lib"].view().status
        if status.phase and status.phase.final:
            break
        world.now += tick
        if chance.random() < odds:
            world.remove_node("s1") if "s1" in world.nodes else world.add_node("s1", "spot")
    statuses = world.statuses("lib")
    ledger_replay.check_counters(statuses, ledger_replay.Replay(PRICES).take(statuses))
    return status, world.now - NOW


LONGER = [(hours, odds, MINUTE, seed) for hours, odds in ((9.5, 1 / 30), (12, 1 / 90), (12, 1 / 8)) for seed in (0, 1)]


@pytest.mark.parametrize(
    ("hours", "odds", "tick", "seed"),
    [(9.5, 1 / 15, 2 * MINUTE, 0), *(pytest.param(*one, marks=pytest.mark.thorough) for one in LONGER)],
)
def test_in_time_and_cheaper_than_dedicated(hours, odds, tick, seed):
    """Breaks if the net is not obeyed, if a choice is not carried out, or if the job goes to and fro."""
    status, took = live(seed, hours, odds, tick)
    assert status.phase is Phase.COMPLETED
    assert took <= timedelta(hours=hours), "the deadline is kept even without Spot nodes"
    assert float(status.ledger.spent) < 1.1 * DEDICATED_ONLY
    assert status.restarts.failures == 0
    spared = status.attempt - status.restarts.interruptions
    assert spared <= 6 + 2 * status.restarts.interruptions, "an attempt or two for each time that Spot came or went"
    risk = next(one for one in status.conditions if one.type == "DeadlineAtRisk")
    assert (risk.status, risk.reason) == ("False", "Done")


def test_a_budget_is_never_exceeded():
    """Breaks if the job is stopped too late; it stands there with its checkpoints, and nothing more is paid."""
    status, _ = live(0, 6, 1 / 180, MINUTE / 3, watched=3, budget="4")
    assert (status.phase, status.reason) == (Phase.SUSPENDED, "BudgetExceeded")
    assert 3 < float(status.ledger.spent) <= 4
    assert status.checkpoint is not None
