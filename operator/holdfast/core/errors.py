"""Errors of the decisions."""

from collections.abc import Sequence

from holdfast.api.errors import HoldfastError


class UndecidedError(HoldfastError):
    """The transition table did not come to rest: two rows undo each other. A bug; the job is left as it is."""

    def __init__(self, rows: Sequence[str]) -> None:
        super().__init__(f"no decision: the transition table went round in circles: {' -> '.join(rows)}")
