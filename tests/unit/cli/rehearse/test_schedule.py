"""When the interruptions of a rehearsal are due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.schedule import SHORTEST_WAIT, Due, Seen, needed, schedule

NOTICE, CRASH, IN_SAVE, LOST = Interruption


def every(seconds: float, count: int, steps: int = 10) -> list[Seen]:
    return [Seen(seconds * number, steps * number) for number in range(1, count + 1)]


# Breaks if interruptions come all at once, or so late that nothing is left to go on with.
@pytest.mark.parametrize(
    ("saves", "kinds", "due"),
    [
        (every(4, 2), [NOTICE], [Due(10, 1, 2.0, SHORTEST_WAIT)]),
        (every(4, 8), [NOTICE], [Due(40, 4, 2.0, 30.0)]),
        (every(4, 3), [IN_SAVE], [Due(10, 1, 0.0, 30.0)]),
        (
            every(4, 6),
            [NOTICE, CRASH, IN_SAVE, LOST],
            [Due(10, 1, 2.0, 30.0), Due(20, 2, 2.0, 30.0), Due(30, 3, 0.0, 30.0), Due(50, 5, 2.0, 30.0)],
        ),
        (
            every(4, 11),
            [NOTICE, CRASH, IN_SAVE, LOST],
            [Due(20, 2, 2.0, 30.0), Due(40, 4, 2.0, 30.0), Due(60, 6, 0.0, 30.0), Due(90, 9, 2.0, 30.0)],
        ),
        (every(600, 2), [LOST], [Due(10, 1, 60.0, 3600.0)]),
        ([Seen(3, None), Seen(3, None)], [CRASH], [Due(None, 1, 0.1, 30.0)]),
    ],
)
def test_they_are_spread_over_the_run(saves: list[Seen], kinds: list[Interruption], due: list[Due]) -> None:
    assert schedule(saves, kinds) == due


# Breaks if a start is interrupted before it has a save from which the next one can go on.
def test_too_few_saves() -> None:
    with pytest.raises(ValueError, match="5 saves; allowed: at least 6"):
        schedule(every(4, 5), list(Interruption))


# Breaks if a later interruption is due before the start that it ends can have a save, or if the last start has none.
@given(
    st.lists(st.floats(0.001, 1e6), min_size=2, max_size=40).map(sorted),
    st.permutations(list(Interruption)),
    st.integers(1, 4),
)
def test_they_are_in_their_order(times: list[float], kinds: list[Interruption], count: int) -> None:
    saves, chosen = [Seen(at, number) for number, at in enumerate(times, 1)], kinds[:count]
    if len(saves) < needed(chosen):
        return
    dues = schedule(saves, chosen)
    taken = 0
    for kind, due in zip(chosen, dues, strict=True):
        assert due.saves > taken
        assert due.step == due.saves
        assert 0 <= due.pause < due.patience
        taken = due.saves + (kind is IN_SAVE)
    assert taken < len(saves)
