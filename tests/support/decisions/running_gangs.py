"""Trainings on several nodes that train already, and how their attempts ended."""

from tests.support.decisions.gang_world import GangWorld


def running(**spec) -> GangWorld:
    """Four nodes that train, with a checkpoint."""
    world = GangWorld(spec=spec)
    world.settle()
    world.train()
    return world


def ended(world: GangWorld) -> list[tuple[str, str, int | None]]:
    """How attempts ended: kind, reason, rank."""
    return [(record.kind.value, record.reason, record.rank) for record in world.status.history]
