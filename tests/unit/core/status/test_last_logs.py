"""The logs of several nodes can be read once the job is over or suspended."""

from datetime import timedelta

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import running

from holdfast.api.status import Phase


def kept(world: GangWorld) -> list[str]:
    """The pods that have ended, and that nobody deletes."""
    return sorted(pod.name for pod in world.pods.values() if pod.ended and pod.deleted_at is None)


ALL = [f"vit-1-{rank}" for rank in range(4)]


def test_after_the_last_failure_all_pods_end_by_themselves():
    """Breaks if the pod whose program has failed is deleted, so that nobody can read what it printed."""
    world = running(failure={"maxFailures": 0})
    world.fail(2)  # the others hang in a collective
    world.settle()
    assert world.status.phase is Phase.FAILED
    assert (kept(world), world.deleted) == (ALL, [])
    settled = world.status
    world.pass_time(60)
    assert (kept(world), world.deleted, world.status) == (ALL, [], settled)


def test_a_suspended_training_keeps_its_logs():
    world = running()
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.settle()
    world.leave()
    assert world.status.phase is Phase.SUSPENDED
    assert (kept(world), world.deleted) == (ALL, [])


def test_a_launcher_that_does_not_end_is_not_waited_for():
    """Breaks if a node is paid for without end."""
    world = running(failure={"maxFailures": 0})
    world.fail(2)
    world.decide()
    assert world.status.phase is Phase.FAILED
    assert (kept(world), world.deleted) == ([], [])
    world.now += timedelta(seconds=29)
    assert world.decide().requeue_at == world.now + timedelta(seconds=1)
    world.now += timedelta(seconds=1)
    world.decide()
    assert sorted(world.deleted) == ALL


def test_programs_that_could_save_get_their_signal():
    """Breaks if the programs of a job whose time is over are killed, and lose what they have not saved."""
    world = running(activeDeadline="1h")
    world.now += timedelta(hours=2)
    for one in world.launchers.values():
        one.heard_at = world.now
    world.decide()
    assert world.status.phase is Phase.FAILED
    assert sorted(world.deleted) == ALL
