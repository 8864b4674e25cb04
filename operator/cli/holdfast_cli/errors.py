"""The error of a command."""

from holdfast.api.errors import ExitCode, HoldfastError

__all__ = ["CliError", "ExitCode"]


class CliError(HoldfastError):
    """A command cannot continue. `code` is the exit code; `hint` says what to do."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.exit_code = code
        self.hint = hint
