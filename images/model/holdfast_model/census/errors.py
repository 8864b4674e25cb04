"""Errors of data sets."""

from holdfast_train.errors import CommandCode, HoldfastTrainError


class DataSetError(HoldfastTrainError):
    """A data set cannot be read, or has nothing that can be counted."""

    reason = "DataSetInvalid"


class DataSetNotFoundError(DataSetError):
    """There is no such file or folder."""

    command_code = CommandCode.NOT_FOUND
