from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.apiserver.leadership_gate import LeadershipGate


def test_how_long_the_gate_has_been_shut() -> None:
    clock = Clock()
    gate = LeadershipGate(clock)
    assert gate.closed_for == float("inf")
    gate.keep_open(clock() + 10)
    clock.tick(10)
    assert (gate.is_open, gate.closed_for) == (False, 0.0)
    clock.tick(5)
    assert gate.closed_for == 5.0
    gate.keep_open(clock() + 1)
    assert gate.closed_for == 0.0
    gate.close()
    assert gate.closed_for == float("inf")


def test_how_long_the_gate_has_been_open_without_a_gap() -> None:
    clock = Clock()
    gate = LeadershipGate(clock)
    assert gate.open_for == 0.0
    gate.keep_open(clock() + 10)
    clock.tick(8)
    gate.keep_open(clock() + 10)
    assert gate.open_for == 8.0
    clock.tick(10)
    assert gate.open_for == 0.0
    gate.keep_open(clock() + 10)
    clock.tick(3)
    assert gate.open_for == 3.0
