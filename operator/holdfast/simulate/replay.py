"""One job as its manifest says, on nodes that come and go as written down, with durations as they were measured.

So a run in a real cluster can be held against the simulation: give it the job, when its nodes were taken, and how long
things took there, and compare the status, the ledger above all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.config import OperatorConfig
from holdfast.simulate.durations import ZERO, Durations
from holdfast.simulate.errors import SimulationError
from holdfast.simulate.machines import Machine, Recorded, Spell
from holdfast.simulate.storage import Storage
from holdfast.simulate.world import CONFIG, World

LIMIT = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tier: `spells` says when it is there, in time since the beginning of the job.

    `stands` is False where an autoscaler brings it when a pod asks, and takes it away when it was idle for `linger`.
    """

    tier: str
    name: str
    spells: tuple[Spell, ...] = (Spell(),)
    stands: bool = True
    linger: timedelta = ZERO


@dataclass(frozen=True, slots=True)
class Schedule:
    """All nodes that the job may use, and how often it saves: every `every` steps of an attempt; 0 is every step.

    `limit` is how long the job may take at most.
    """

    nodes: Sequence[Node]
    every: int = 0
    limit: timedelta = LIMIT


def replay(
    job: TrainingJob,
    schedule: Schedule,
    durations: Mapping[str, Durations],
    *,
    profile: CapacityProfile | None = None,
    config: OperatorConfig = CONFIG,
) -> World:
    """The world once the job is over, with its status, the bill and the pods; `durations` by tier.

    The job begins at holdfast.simulate.world.BEGIN: its deadline counts from there. It needs goal.steps, and `profile`
    if it names one. Raises SimulationError if it lacks something, or is not over in time.
    """
    goal = job.spec.goal.steps
    if goal is None:
        raise SimulationError("spec.goal.steps: must be set, for the program has to know when it is done")
    tiers = {tier.name: tier for tier in job.spec.capacity.tiers or (profile.spec.tiers if profile else ())}
    for what, named in (("nodes", [node.tier for node in schedule.nodes]), ("durations", list(durations))):
        if unknown := sorted(set(named) - tiers.keys()):
            raise SimulationError(f"{what}: no tier is named {unknown[0]}; there are {', '.join(tiers) or 'none'}")
    if missing := sorted({node.tier for node in schedule.nodes} - durations.keys()):
        raise SimulationError(f"durations: there must be some for tier {missing[0]}, which has nodes")
    machines: list[Machine] = [
        Recorded(tiers[node.tier], node.name, node.spells, stands=node.stands, linger=node.linger)
        for node in schedule.nodes
    ]
    world = World(job, machines, durations, Storage(goal, schedule.every), profile=profile, config=config)
    world.run(schedule.limit)
    return world
