"""The error of evaluations."""

from holdfast_train.errors import HoldfastTrainError


class EvaluationError(HoldfastTrainError):
    """Data cannot be read, or does not fit the problem of a package."""

    reason = "EvaluationInvalid"
