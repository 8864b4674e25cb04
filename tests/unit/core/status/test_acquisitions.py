"""How long attempts waited for nodes, from two statuses."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.decisions.snapshots import at, status

from holdfast.api.attempt import Attempt, AttemptRecord, AttemptState, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.status.acquisitions import Acquisition, acquisitions

SPOT = ProfileTier(name="spot", kind="Spot")


def waiting(number: int = 2, **changes: Any) -> Attempt:
    return Attempt(number=number, state=AttemptState.ACQUIRING, tier=SPOT, raised_at=at(-600), **changes)


def ended(**changes: Any) -> AttemptRecord:
    return AttemptRecord(
        number=2,
        tier="spot",
        kind=EndKind.INTERRUPTION,
        reason="AcquireTimeout",
        raised_at=at(-600),
        ended_at=at(0),
        **changes,
    )


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (status(current=waiting()), ()),
        (status(current=waiting(scheduled_at=at(-540))), (("Acquired", 60),)),
        (status(successor=waiting(scheduled_at=at(-540))), (("Acquired", 60),)),
        (status(history=(ended(),)), (("GaveUp", 600),)),
        (status(history=(ended(scheduled_at=at(-570)),)), (("Acquired", 30),)),
        (status(current=waiting(3)), ()),  # its record is gone: nothing is known
        (status(current=waiting(scheduled_at=at(-601))), (("Acquired", 0),)),  # by another clock
    ],
)
def test_the_end_of_a_wait(after: TrainingJobStatus, found: tuple[tuple[str, int], ...]) -> None:
    expected = tuple(Acquisition("Spot", result, timedelta(seconds=seconds)) for result, seconds in found)
    assert acquisitions(status(current=waiting()), after) == expected


def test_a_wait_that_was_over_is_not_counted_again() -> None:
    got = waiting(scheduled_at=at(-540))
    assert acquisitions(status(current=got), status(current=got)) == ()
