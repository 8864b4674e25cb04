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


class SimulationError(HoldfastError):
    """A job in the virtual cluster lacks something or does not end. The message says what is missing, or its state."""


class UnfinishedError(SimulationError):
    """A job in the virtual cluster is not over in the time that it may take."""
