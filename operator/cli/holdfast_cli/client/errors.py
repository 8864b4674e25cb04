"""Errors of the Python client. All others are those of the commands: HoldfastError is the base of all."""

from holdfast_cli.errors import CliError, ExitCode


class JobFailedError(CliError):
    """The job failed, or it is over and what was waited for cannot come any more."""


class JobGoneError(CliError):
    """The job does not exist any more: it was deleted, also if a new one has its name."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, code=ExitCode.NOT_FOUND, hint=hint)


class WaitTimeoutError(CliError, TimeoutError):
    """What was waited for did not come in time. The job goes on."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, code=ExitCode.NO_ANSWER, hint=hint)
