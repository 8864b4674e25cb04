"""The error of a command."""

from holdfast.api.errors import ExitCode, HoldfastError

__all__ = ["CliError", "ExitCode", "unreadable"]


class CliError(HoldfastError):
    """A command cannot continue. `code` is the exit code; `hint` says what to do."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.exit_code = code
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


def unreadable(file: object, error: OSError, *, hint: str = "") -> CliError:
    """The error for a local file that cannot be read. `file` names it, after the option if there is one."""
    codes = {FileNotFoundError: ExitCode.NOT_FOUND, PermissionError: ExitCode.FORBIDDEN}
    code = codes.get(type(error), ExitCode.FAILED)
    return CliError(f"{file} cannot be read: {error.strerror or error}", code=code, hint=hint)
