"""Errors of studies."""

from holdfast.api.errors import HoldfastError


class StudyError(HoldfastError):
    """A study is not valid, or is too large. The message says what is allowed.

    `field` is the field of Study that is wrong; it is empty if the traces are wrong.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}{': ' if field else ''}{problem}")


class PlotError(HoldfastError):
    """The picture cannot be made or written. The message says what is allowed or missing."""
