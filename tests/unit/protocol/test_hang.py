"""Which of several nodes is at fault for a hang: a wrong one costs a healthy node."""

import pytest

from holdfast_protocol.hang import Hang, at_fault

WAITS, WORKS, UNKNOWN, STOPPED = Hang(waits=True), Hang(waits=False), Hang(), Hang(stopped=True)


def entered(number: int, *, waits: bool | None = True, group: str = "gloo 0") -> Hang:
    return Hang(entered={group: number}, waits=waits)


@pytest.mark.parametrize(
    ("hangs", "expected"),
    [
        ((), None),
        ((WORKS,), None),
        ((WAITS, WAITS), None),
        ((WORKS, WORKS), None),
        ((UNKNOWN, WORKS), None),
        ((WAITS, WORKS), 1),
        ((WAITS, WORKS, WORKS), 1),
        ((entered(7), entered(6), entered(7)), 1),
        ((entered(7), entered(7)), None),
        ((entered(7), entered(6, group="nccl 0")), None),
        # The fewest collectives tell more than stacks, and a stopped process more than both.
        ((entered(7, waits=False), entered(6)), 1),
        ((entered(6), entered(7), STOPPED), 2),
        ((STOPPED, STOPPED), None),
    ],
)
def test_the_node_at_fault(hangs: tuple[Hang, ...], expected: int | None) -> None:
    found = at_fault(dict(enumerate(hangs)))
    assert next((one.rank for one in found), None) == expected
