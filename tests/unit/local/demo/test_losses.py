"""Losses out of the trainer's log, and what they show at a move."""

import pytest

from holdfast_local.demo.losses import LossBook, parse_line


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("step     20/60  loss 3.1150     7.1 steps/s\n", (20, 3.115)),
        ("step 1,200 / 2,000 | loss: 2.5e-1", (1200, 0.25)),
        ("step=7 lr=0.1 loss=-1.5", (7, -1.5)),
        ("holdfast: resumed at step 40", None),
        ("3.3 M parameters, 30.0 MiB of text", None),
        ("footstep 3 loss 4", None),
        ("step 4 loss nan", None),
    ],
)
def test_lines(line: str, found: tuple[int, float] | None) -> None:
    assert parse_line(line) == found


def book() -> LossBook:
    made = LossBook()
    for step in range(1, 11):
        made.see(1, step, 10.0 - step)
    for step in range(9, 13):  # resumed at step 8: steps 9 and 10 are done twice
        made.see(3, step, 10.0 - step)
    return made


def test_a_move_shows_both_sides_and_compares_what_was_done_twice() -> None:
    (move,) = book().moves([(3, 8)])
    assert (move.before, move.after) == ((8, 2.0), (9, 1.0))
    assert (move.twice, move.largest_difference) == (2, 0.0)


def test_a_difference_is_seen() -> None:
    made = book()
    made.see(3, 10, 0.5)
    assert made.moves([(3, 8)])[0].largest_difference == pytest.approx(0.5)


def test_an_attempt_without_a_log_shows_nothing() -> None:
    (move,) = LossBook().moves([(2, 8)])
    assert (move.before, move.after, move.twice) == (None, None, 0)


def test_the_curve_has_each_step_once() -> None:
    assert book().curve() == [10.0 - step for step in range(1, 13)]
