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
    """What is to be simulated makes no sense, or is too much. The message says what is allowed.

    `field` names the field of Study that is to blame; it is empty where the traces are.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}{': ' if field else ''}{problem}")


class PlotError(HoldfastError):
    """The picture cannot be made, or not be written. The message says what is allowed or missing."""


class SimulationError(HoldfastError):
    """A job in the virtual cluster lacks something, or does not end. The message says what, or how it stands."""
