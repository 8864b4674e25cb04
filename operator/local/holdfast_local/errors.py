"""What can go wrong with the local cluster, in words that say what to do."""

from holdfast.api.errors import HoldfastError


class LocalError(HoldfastError):
    """Base of every error of the local cluster."""


class ConfigError(LocalError):
    """The configuration or the node file is wrong; the message names the field."""


class ToolError(LocalError):
    """A tool could not be built: no Go, no space, or the build failed."""


class AlreadyUpError(LocalError):
    """There is a cluster in this folder already, or another command is at work in it."""


class NotUpError(LocalError):
    """This folder has no cluster."""


class StartError(LocalError):
    """A part of the cluster did not become ready; the message ends with the tail of its log."""


class PortTakenError(StartError):
    """A port is used by another process."""


class ControlError(LocalError):
    """The node agent refused an order, or could not be reached."""
