"""One job of a study under a policy of Holdfast: its manifest, and the virtual cluster in which it runs."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from holdfast.api.knowledge import MAX_MEASURED, Measured, TierKnowledge
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.scalars import format_time
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.config import Assumptions
from holdfast_cli.simulate.durations import SECOND, ZERO, Durations
from holdfast_cli.simulate.machines import Machine, Recorded, Spell, spells
from holdfast_cli.simulate.storage import Storage
from holdfast_cli.simulate.traces import Trace
from holdfast_cli.simulate.world import BEGIN, CONFIG, World
from holdfast_research.economy import DEDICATED, SPOT, Market, Outcome, Setting
from holdfast_research.hostile import Hostile

Capacity = dict[str, str]

OWN: Final[dict[str, Capacity]] = {
    "deadline": {"policy": "Deadline"},
    "cheapest": {"policy": "Cheapest"},
    "ordered-slack": {"policy": "Ordered", "returnPolicy": "Slack"},
    "ordered-eager": {"policy": "Ordered", "returnPolicy": "Eager"},
    "ordered-never": {"policy": "Ordered", "returnPolicy": "Never"},
}
"""What a job's spec.capacity contains under each policy of Holdfast."""

LINGER = timedelta(minutes=10)  # after so long an autoscaler usually removes an idle node
PAID_OVERLAP = "3h"  # where watching is billed, Spot must prove itself on a second node, which is paid for
ALLOWANCE = timedelta(
    seconds=10
)  # for a step or a grace period, which take seconds in a cluster and nothing in the economy


def world(setting: Setting, markets: Sequence[Trace | Market], capacity: Capacity, start: int = 0) -> World:
    """The virtual cluster of a job in the economy's setting: on traces from their step `start` on, or hostile markets.

    Everything is as in the economy. A start takes the changeover, all of it after the fence. An interruption comes
    without notice and costs what the setting says. Policies are asked at the steps of the traces, and nothing changes
    between them. The job knows its pace and how long starts take, like a job that has run before, and has ALLOWANCE
    more time. Raises ValueError if the setting's changeover is not one number, or if tiers differ in speed.
    """
    if callable(setting.changeover) or setting.spot_speeds:
        raise ValueError("in the virtual cluster a changeover is one number, and all tiers are of one speed")
    changeover, gap = timedelta(seconds=setting.changeover), timedelta(seconds=setting.gap)
    stands = not setting.billed_probe
    profile = _profile(str(setting.dedicated_price), tuple(map(str, setting.spot_prices)), billed=not stands)
    *spots, dedicated = profile.spec.tiers
    machines: list[Machine] = [Recorded(dedicated, DEDICATED, [Spell()])]
    for tier, market in zip(spots, markets, strict=True):
        if isinstance(market, Trace):
            machines.append(Recorded(tier, tier.name, spells(market, start), stands=stands, linger=LINGER))
        else:
            machines.append(Hostile(tier, tier.name, market, gap, stands=stands, linger=LINGER))
    return World(
        _job(setting, capacity, [tier.name for tier in profile.spec.tiers], changeover),
        machines,
        {tier.name: Durations(restore=changeover) for tier in profile.spec.tiers},
        Storage(int(setting.work), int(setting.lost), unlucky=True),
        profile=profile,
        config=replace(CONFIG, assumed=Assumptions(decision_gap=gap, interruption_detection=ZERO)),
        beat=gap,
    )


def run(setting: Setting, markets: Sequence[Trace | Market], capacity: Capacity, start: int = 0) -> Outcome:
    """The outcome: the cost is that of status.ledger and, where watching is billed, of nodes that were idle.

    Raises SimulationError if the job does not end.
    """
    made = world(setting, markets, capacity, start)
    status = made.run(timedelta(seconds=2 * (setting.deadline + setting.work)))
    finished = (made.now - BEGIN).total_seconds()
    idle = sum((one.cost for one in made.bill if one.idle), Decimal(0))
    return Outcome(
        cost=float(status.ledger.spent + idle),
        finished=finished,
        late=max(finished - setting.deadline - ALLOWANCE.total_seconds(), 0.0),
        moves=made.starts,
        interruptions=made.interruptions,
        hours={one.tier: float(one.node_hours) for one in status.ledger.by_tier},
    )


@lru_cache(maxsize=64)
def _profile(dedicated: str, spots: tuple[str, ...], *, billed: bool) -> CapacityProfile:
    """The grid: Spot tiers, then the dedicated tier. A pod gets a node at once if one is up, otherwise not at all."""
    observation = "Billed" if billed else "Free"
    tiers: list[dict[str, Any]] = [
        {"kind": "Spot", "pricePerNodeHour": price, "observation": observation, "acquireTimeout": "1s"}
        for price in spots
    ]
    tiers.append({"kind": "Dedicated", "pricePerNodeHour": dedicated, "observation": "Free"})
    known = [*(SPOT.format(number) for number in range(len(spots))), DEDICATED]
    for tier, name in zip(tiers, known, strict=True):
        tier |= {"name": name, "accelerator": "nvidia.com/gpu", "nodeSelector": {"tier": name}}
    return CapacityProfile.parse({"metadata": {"name": "simulated"}, "spec": {"tiers": tiers}})


def _job(setting: Setting, capacity: Capacity, tiers: Sequence[str], changeover: timedelta) -> TrainingJob:
    deadline = format_time(BEGIN + timedelta(seconds=int(setting.deadline)) + ALLOWANCE)
    every = f"{int(setting.lost) or 1} steps"
    overlap = {"maxOverlap": PAID_OVERLAP} if setting.billed_probe else {}
    spec = {
        "trainer": {"image": "simulated", "command": ["train"]},
        "capacity": {"profile": "simulated", "deadline": deadline, **overlap, **capacity},
        "checkpoint": {
            "storage": {"volumeClaim": {"name": "simulated", "path": "job"}},
            "every": every,
            "gracePeriod": "1s",
        },
        "goal": {"steps": int(setting.work)},
    }
    job = TrainingJob.parse({"metadata": {"name": "job", "namespace": "simulated", "uid": "u-job"}, "spec": spec})
    start = Measured(recent=(changeover,) * MAX_MEASURED, worst=changeover)
    at_once = Measured(recent=(ZERO,) * MAX_MEASURED, worst=ZERO)
    known = tuple(TierKnowledge(tier=tier, start=start, acquire=at_once, pace=SECOND) for tier in tiers)
    return job.model_copy(update={"status": TrainingJobStatus(tiers=known)})
