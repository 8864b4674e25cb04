"""Trainings on several nodes that hang: which node is blamed, and when the job ends."""

from tests.support.decisions.running_gangs import ended, running

from holdfast.api.status import Phase
from holdfast.core.capacity.bad_nodes import suspects


def test_the_node_at_fault_for_two_hangs_is_left():
    """Breaks if the launcher that tells a hang first is blamed, or if a node on which trainings hang is kept."""
    world = running()
    for attempt in (1, 2):
        node = world.node_of(2)
        world.hang(0, waits=True)
        world.settle()
        assert len(world.status.history) == attempt - 1, "the others have not told theirs yet"
        world.hang(2, waits=False)
        for rank in (1, 3):
            world.fail(rank, "Connection reset by peer")
        world.settle()
        assert ended(world)[-1] == ("Failure", "Stalled", 2)
        assert world.status.history[-1].node == node
        assert world.status.history[-1].node_at_fault
        assert suspects(world.snapshot()) == {node: attempt}
        assert "the node of rank 2 is at fault" in world.status.history[-1].message
        assert len(world.created) == 3 + attempt, "the pod stays after the first hang"
        world.pass_time(10)
        world.train()
    assert world.node_of(2) != node


def test_three_hangs_without_progress_end_the_job():
    """Breaks if a training that hangs is started again and again, or if its end does not name the evidence."""
    world = running(failure={"maxFailures": 100})
    for number in range(1, 5):  # the first attempt has saved
        for _ in range(300):
            if not world.trains():
                world.pass_time(1)
        world.hang(1, waits=False)
        world.settle()
        world.pass_time(50)
        assert len(world.status.history) == number
    assert [one.fruitless for one in world.status.history] == [False, True, True, True]
    assert (world.status.phase, world.status.reason) == (Phase.FAILED, "Stalled")
    assert "holdfast evidence vit shows what their ranks did" in world.status.history[-1].message


def test_a_hang_that_one_launcher_tells_waits_for_the_others_for_a_while():
    world = running()
    world.hang(1, waits=True)
    world.pass_time(44)
    assert world.status.history == ()
    world.pass_time(2)
    assert ended(world) == [("Failure", "Stalled", 1)]
    assert suspects(world.snapshot()) == {}, "nothing tells this node from the others"
