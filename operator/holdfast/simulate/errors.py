"""Errors of the simulation."""

from pathlib import Path

from holdfast.api.errors import HoldfastError


class TraceError(HoldfastError):
    """A trace file cannot be read. The message names the file, the place in it, and what may stand there."""

    def __init__(self, path: Path, place: str, problem: str) -> None:
        self.path = path
        self.place = place
        self.problem = problem
        super().__init__(f"{path}{', ' if place else ''}{place}: {problem}")


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


class SimulationError(HoldfastError):
    """A job in the virtual cluster lacks something or does not end. The message says what is missing, or its state."""


class UnfinishedError(SimulationError):
    """A job in the virtual cluster is not over in the time that it may take."""
