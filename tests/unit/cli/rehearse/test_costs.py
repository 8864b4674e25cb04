"""What interruptions have cost a program."""

import pytest

from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.costs import bytes_of_saves, costs_of
from holdfast_cli.rehearse.left import Interruption, Start


def start(number: int, resumed: int | None, first: int | None, last: int | None, *, is_last: bool = False) -> Start:
    ended = None if is_last else Interruption.CRASH
    return Start(number, ended, 0 if is_last else None, resumed, resumed is not None, first, last, 9.0, 2.5)


# Breaks if lost work is counted from the checkpoint although the program found a newer save in a folder that stayed, if
# a program that tells each tenth step is said to have skipped some, or if one that began again is said to have resumed.
@pytest.mark.parametrize(
    ("resumed", "first", "last", "every", "went_on", "lost"),
    [
        (20, 21, 25, 1, 20, 5),
        (20, 20, 25, 1, 20, 5),
        (20, 23, 25, 1, 22, 3),
        (20, 30, 40, 10, 20, 20),
        (23, 30, 40, 10, 23, 17),
        (20, 40, 45, 10, 30, 15),
        (20, 1, 25, 1, 0, 25),
        (20, 10, 45, 10, 0, 45),
        (20, None, 25, 1, 20, 5),
        (None, 21, 25, 1, 20, 5),
        (None, None, 25, 1, None, None),
        (20, 21, None, 1, 20, None),
    ],
)
def test_where_it_went_on(
    resumed: int | None, first: int | None, last: int | None, *, every: int, went_on: int | None, lost: int | None
) -> None:
    starts = [start(1, None, every, last), start(2, resumed, first, 100, is_last=True)]
    [cost] = costs_of(starts, range(every, 101, every))
    assert (cost.kind, cost.at, cost.went_on, cost.lost) == (Interruption.CRASH, last, went_on, lost)
    assert cost.seconds == 2.5


# Breaks if a program that tells no step has invented costs.
def test_a_program_without_steps() -> None:
    [cost] = costs_of([start(1, None, None, None), start(2, None, None, None, is_last=True)], ())
    assert (cost.at, cost.went_on, cost.lost) == (None, None, None)


# Breaks if a commit of a log counts as a save.
def test_bytes_of_saves() -> None:
    made = [Made(1, 1, 10, "a", is_new=True, uploaded=5), Made(2, 1, 10, "a", is_new=False, uploaded=7)]
    assert bytes_of_saves(made) == [5]
