"""A row: which attempts it may fit, and the words of its guard."""

import pytest

from holdfast.api.attempt import AttemptState
from holdfast.core.observe.situation import Sight
from holdfast.core.row import job_row, row

RUNNING = (AttemptState.RUNNING,)


def found_if_late(turn):
    """The notice if it comes too late, if ever.

    More about it.
    """


def nothing(*subject):
    """Changes nothing."""


@pytest.mark.parametrize(
    ("given", "state", "fits"),
    [
        (row("a", RUNNING, (), found_if_late, nothing, then=""), AttemptState.RUNNING, True),
        (row("a", RUNNING, (), found_if_late, nothing, then=""), AttemptState.STARTING, False),
        (row("a", RUNNING, (Sight.SILENT,), found_if_late, nothing, then=""), AttemptState.RUNNING, False),
        (row("a", (), (), found_if_late, nothing, then=""), AttemptState.DRAINING, True),
        (row("any attempt needs one", (), (), found_if_late, nothing, then=""), None, False),
        (job_row("a job may have none", (), found_if_late, nothing, then=""), None, True),
        (job_row("only without one", (None,), found_if_late, nothing, then=""), AttemptState.RUNNING, False),
    ],
)
def test_a_row_fits_states_and_sights(given, state, fits):
    assert given.may_fit(state, frozenset((Sight.RUNNING,))) is fits
    assert given.may_fit(state, frozenset((Sight.RUNNING, Sight.ENDED))) is fits


def test_the_words_of_a_guard_are_in_its_docstring():
    assert row("a", (), (), found_if_late, nothing, then="").guard == "it comes too late, if ever"
    assert row("a", (), (), nothing, nothing, then="").guard == ""
