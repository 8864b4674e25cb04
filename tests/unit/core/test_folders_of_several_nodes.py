"""Trainings on several nodes whose folder is saved: what the process of one node tells, and how programs leave."""

from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import ended

from holdfast.api.status import Phase
from holdfast.core.observe.report import Report, SavedCheckpoint
from holdfast_protocol.report import FOLDER, RELAY

CHECKPOINT = {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "folder": "/outputs"}


def gang(**spec) -> GangWorld:
    """Four nodes whose programs run, and have reported nothing."""
    world = GangWorld(fenced=False, spec={"checkpoint": CHECKPOINT, **spec})
    world.settle()
    return world


def tell(world: GangWorld, attempt: int, first: int, step: int, *, put_back: int | None, saved: int) -> None:
    """The launcher and the writer of the first node report, as the operator sees both together."""
    uid, now = world.uid(0), world.now
    world.reports[uid] = Report(
        uid, attempt, now, "training", step, first, now, now, resumed_step=put_back, senders=(RELAY, FOLDER),
        checkpoint=SavedCheckpoint(saved, "s3://runs/p", 1, now, timedelta(seconds=1)),
    )  # fmt: skip
    world.settle()


# Breaks if a folder that is put back for hours counts as a launcher that does not get ready, or as a training that
# hangs.
@pytest.mark.parametrize("state", [None, "starting"])
def test_a_folder_may_be_put_back_for_hours(state):
    world = gang()
    for _ in range(36):
        if state:
            world.reports[world.uid(0)] = Report(world.uid(0), 1, world.now, state, senders=(FOLDER,))
        world.pass_time(300)
    assert world.trains()
    assert world.status.history == ()
    assert (world.status.phase, world.status.current.number) == (Phase.RUNNING, 1)


# Breaks if what an attempt reports counts for the next one in the same pods, or if steps done twice are not counted.
def test_each_attempt_in_the_same_pods_has_its_own_steps():
    world = gang()
    tell(world, 1, 1, 10, put_back=None, saved=8)
    pods = set(world.pods)
    world.fail(2)
    world.settle()
    assert ended(world) == [("Failure", "UserException", 2)]
    assert set(world.pods) == pods
    assert (world.status.current.number, world.status.current.first_step) == (2, None)
    tell(world, 2, 9, 12, put_back=8, saved=8)
    assert (world.status.current.first_step, world.status.current.resumed_step) == (9, 8)
    assert world.status.ledger.steps_lost == 2
    assert world.status.checkpoint.step == 8


# Breaks if attempts of which each saves count as attempts without progress, or attempts that save nothing do not.
@pytest.mark.parametrize("saves", [True, False])
def test_a_commit_of_the_first_node_is_progress_of_all(saves):
    world = gang()
    if saves:
        uid = world.uid(0)
        saved = SavedCheckpoint(None, "s3://runs/p", 1, world.now, timedelta(seconds=1))
        world.reports[uid] = Report(uid, 1, world.now, "training", checkpoint=saved, senders=(FOLDER,))
        world.settle()
    world.fail(1)
    world.settle()
    assert [record.fruitless for record in world.status.history] == [not saves]


# Breaks if the operator orders to leave and ends healthy pods too: the process of the first node tells all others.
@pytest.mark.parametrize("size", [1, 4])
def test_the_writer_of_the_first_node_takes_orders(size):
    world = GangWorld(size=size, fenced=False, spec={"checkpoint": CHECKPOINT})
    world.settle()
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.decide()
    assert (world.deleted, list(world.told.values())) == ([], ["drain"])


# Breaks if steps count as lost although all nodes saved their folders on a notice, and their pods go on.
@pytest.mark.parametrize("saved", [True, False])
def test_a_notice_costs_no_step_if_the_folders_were_saved(saved):
    world = gang()
    tell(world, 1, 1, 10, put_back=None, saved=10)
    world.notice(world.node_of(2))
    world.decide()
    assert world.told == {world.uid(0): "drain"}
    world.leave("SavedAndLeft" if saved else "LeftWithoutSaving")
    world.settle()
    assert world.status.history[0].steps_lost == (0 if saved else None)
