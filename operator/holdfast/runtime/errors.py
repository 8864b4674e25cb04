"""What can go wrong in the operator process."""

from holdfast.api.errors import HoldfastError


class ApiError(HoldfastError):
    """The API server refused a request, or did not answer it.

    `status` is the HTTP status, 0 if there was no answer (then the request may or may not have been applied). `reason`
    and `message` are those of the Status object. `retry_after` is in seconds, None if the server did not say.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        """The object does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """The object has changed, or has another UID, since it was read."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def already_exists(self) -> bool:
        """Another object has the name."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def transient(self) -> bool:
        """The same request may succeed later without any change: no answer, overload, or a server error."""
        return self.status in (0, 408, 429) or self.status >= 500


class LeadershipLostError(HoldfastError):
    """The lease went to another operator or could not be renewed in time. The process has to end."""


class WatchDiedError(HoldfastError):
    """The watches ended although nobody asked them to. The process has to end, so that it is started again."""


class ConfigurationError(HoldfastError):
    """The operator cannot start with these settings."""
