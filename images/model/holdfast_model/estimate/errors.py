"""Errors of estimates."""

from holdfast_train.errors import HoldfastTrainError


class EstimateError(HoldfastTrainError):
    """The user's function cannot be run with tensors that have no memory."""

    reason = "EstimateImpossible"


class NotKnownError(EstimateError):
    """This version of torch does not have what an estimate needs."""

    reason = "EstimateNotKnown"
