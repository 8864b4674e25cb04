"""Exit codes and errors of commands."""

from enum import IntEnum

from holdfast.api.errors import HoldfastError


class ExitCode(IntEnum):
    """Exit codes of `holdfast`. 2 is a wrong command line, as everywhere."""

    OK = 0
    FAILED = 1  # the command did not do what was requested, or the job failed
    NO_CLUSTER = 3  # no kubeconfig, or no answer
    NOT_FOUND = 4  # no such job, checkpoint or bucket, or Holdfast is not installed
    FORBIDDEN = 5  # the cluster or the storage does not allow it to this user


class CliError(HoldfastError):
    """A command cannot go on. `code` is the exit code; `hint` says what to do."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
