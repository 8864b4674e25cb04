"""Errors of packages."""

from holdfast_train.errors import HoldfastTrainError


class PackageError(HoldfastTrainError):
    """A package is missing or damaged, or cannot be made."""

    reason = "PackageInvalid"


class ProblemError(PackageError):
    """A problem contradicts itself, its examples or its model."""

    reason = "ProblemInvalid"


class InputError(PackageError):
    """A call of a model has other names, types or shapes than the problem says."""

    reason = "InputInvalid"


class WorkerError(PackageError):
    """The process that runs a model has ended, or its runtime refused the call."""

    reason = "WorkerLost"
