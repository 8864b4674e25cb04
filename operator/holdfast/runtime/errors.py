"""Errors of the operator process. The tree of all errors is in holdfast/api/errors.py."""

from typing import Final

from holdfast.api.errors import ExitCode, HoldfastError

_EXIT_CODES: Final = {
    0: ExitCode.NO_ANSWER,
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
}


class ApiError(HoldfastError):
    """The API server refused a request, or did not answer it.

    `status` is the HTTP status, 0 without an answer (the server may have applied the request). `reason` and `message`
    are those of the Status object. `retry_after` is in seconds, None if the server did not send it. `rest` continues a
    list that has expired, from a newer state; None if the server does not offer it.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, rest: str | None = None
    ) -> None:
        super().__init__(f"{status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.rest = rest
        self.exit_code = _EXIT_CODES.get(status, ExitCode.FAILED)

    @property
    def not_found(self) -> bool:
        """True if the object does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """True if the object has changed, or has another UID, since it was read."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def already_exists(self) -> bool:
        """True if another object has the name."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def transient(self) -> bool:
        """True if the same request may succeed later: no answer, overload, or a server error."""
        return self.status in (0, 408, 429) or self.status >= 500


class LeadershipLostError(HoldfastError):
    """Another operator has the lease, or the lease was deleted. The process must end."""


class UnreachableError(HoldfastError):
    """Nobody can reach this operator, and another one can lead. The process must end."""


class WatchDiedError(HoldfastError):
    """The watches ended unexpectedly. The process must end, so that the kubelet restarts it."""


class ReleaseError(HoldfastError):
    """Pods keep the finalizer of an operator that is uninstalled, or what only it used is left."""


class ConfigurationError(HoldfastError):
    """The operator cannot start."""


class SettingsError(ConfigurationError):
    """A setting on the command line or in the environment is not valid. The message names every wrong one."""

    exit_code = ExitCode.USAGE


class NoClusterError(ConfigurationError):
    """There is no kubeconfig and no service account, or it cannot be used."""

    exit_code = ExitCode.NO_ANSWER
