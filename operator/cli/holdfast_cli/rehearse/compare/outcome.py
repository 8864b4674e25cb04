"""The five outcomes of a rehearsal."""

from enum import StrEnum


class Outcome(StrEnum):
    """What a rehearsal has shown."""

    EXACT = "exact"
    """What was compared is equal bit by bit."""
    WITHIN_TOLERANCE = "within-tolerance"
    """It differs by no more than the undisturbed runs do, or than the user allows."""
    DIFFERS = "differs"
    """The rehearsed run differs where the undisturbed runs agree."""
    NOT_PROVED = "not-proved"
    """The undisturbed runs differ themselves, or something could not be compared."""
    FAILED = "failed"
    """A run did not come to its end, or a start did not go on from its checkpoint."""
