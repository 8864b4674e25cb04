"""One job from its manifest, on nodes that come and go by a schedule, with measured durations.

So a run in a real cluster can be compared with the simulation: give it the job, when its nodes were taken, and how long
things took there, and compare the statuses, the ledger above all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.config import OperatorConfig
from holdfast_cli.simulate.durations import ZERO, Durations
from holdfast_cli.simulate.errors import SimulationError
from holdfast_cli.simulate.machines import Machine, Recorded, Spell
from holdfast_cli.simulate.storage import Storage
from holdfast_cli.simulate.world import CONFIG, World

LIMIT = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tier. `spells` says when it is up, in time since the beginning of the job.

    `stands` is False if an autoscaler creates the node when a pod asks, and removes it after it was idle for `linger`.
    """

    tier: str
    name: str
    spells: Iterable[Spell] = (Spell(),)
    stands: bool = True
    linger: timedelta = ZERO


@dataclass(frozen=True, slots=True)
class Schedule:
    """All nodes that the job may use, and how often it saves: see Storage. Without a number it saves every step.

    `limit` is how long the job may take at most, and `most_decisions` how many decisions it may need.
    """

    nodes: Sequence[Node]
    every: int = 0
    limit: timedelta = LIMIT
    period: timedelta = ZERO
    most_decisions: int | None = None


def replay(
    job: TrainingJob,
    schedule: Schedule,
    durations: Mapping[str, Durations],
    *,
    profile: CapacityProfile | None = None,
    config: OperatorConfig = CONFIG,
) -> World:
    """The world after the job has ended, with its status, the bill and the pods; `durations` is by tier.

    The job begins at holdfast_cli.simulate.world.BEGIN: its deadline counts from there. It needs goal.steps, and
    `profile` if it names one. Raises SimulationError if something is missing, and UnfinishedError if the job does not
    end in time.
    """
    goal = job.spec.goal.steps
    if goal is None:
        raise SimulationError("spec.goal.steps: must be set, so that the program knows when it is done")
    tiers = {tier.name: tier for tier in job.spec.capacity.tiers or (profile.spec.tiers if profile else ())}
    for what, named in (("nodes", [node.tier for node in schedule.nodes]), ("durations", list(durations))):
        if unknown := sorted(set(named) - tiers.keys()):
            raise SimulationError(f"{what}: no tier is named {unknown[0]}; known tiers: {', '.join(tiers) or 'none'}")
    if missing := sorted({node.tier for node in schedule.nodes} - durations.keys()):
        raise SimulationError(f"durations: tier {missing[0]} has nodes and needs durations")
    machines: list[Machine] = [
        Recorded(tiers[node.tier], node.name, node.spells, stands=node.stands, linger=node.linger)
        for node in schedule.nodes
    ]
    storage = Storage(goal, schedule.every, period=schedule.period)
    world = World(job, machines, durations, storage, profile=profile, config=config)
    world.run(schedule.limit, schedule.most_decisions)
    return world
