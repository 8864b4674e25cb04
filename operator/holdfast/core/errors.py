"""Errors of the decisions."""

from collections.abc import Sequence

from holdfast.api.errors import HoldfastError


class UndecidedError(HoldfastError):
    """Rows of the transition table fire without end: two rows undo each other. A bug; the job is left as it is."""

    def __init__(self, rows: Sequence[str]) -> None:
        super().__init__(f"no decision: rows of the transition table fire without end: {' -> '.join(rows)}")
