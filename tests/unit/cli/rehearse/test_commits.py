"""Which commits of a run have a new save."""

import pytest

from holdfast_cli.rehearse.commits import Made, named, new_saves


@pytest.mark.parametrize(
    ("saves", "new"),
    [(("", "", "a", "b"), [3, 4]), (("", ""), [1, 2]), (("a", "b"), [1, 2])],
    ids=["logs, then saves", "files that are not known as saves", "saves"],
)
# Breaks if a log that is committed before the first save is taken for a save, and the program is interrupted there.
def test_a_log_before_the_first_save(saves: tuple[str, ...], new: list[int]) -> None:
    made = [Made(seq, 1, None, save, is_new=True, uploaded=1) for seq, save in enumerate(saves, 1)]
    assert [one.seq for one in new_saves(named(made))] == new
