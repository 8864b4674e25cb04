"""Errors of the node agent."""

from holdfast_local.errors import LocalError


class AgentError(LocalError):
    """A request to the agent, or a part of a pod, that cannot be served; the message says why and what is allowed."""


class QuantityError(AgentError):
    """A resource quantity of a pod or node cannot be read."""


class ApiError(AgentError):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"API server answered {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class ApiUnreachableError(AgentError):
    """The API server did not answer; worth another try later."""


class AddressError(AgentError):
    """No address is free for a pod; the agent tries again."""


class VolumeError(AgentError):
    """A volume cannot be set up yet; the pod stays in ContainerCreating and the agent tries again."""


class EnvError(AgentError):
    """The environment cannot be built; the message is the kubelet's for CreateContainerConfigError."""
