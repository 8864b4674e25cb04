"""The errors of building images and of a release."""

from typing import Final

NO_BUILDER: Final = 69  # the exit code if no program of this machine builds images; EX_UNAVAILABLE of sysexits.h


class BuildError(Exception):
    """Something could not be built. The text says what is wrong and what to do. `exit_code` is for the command."""

    exit_code = 1


class NoBuilderError(BuildError):
    """No program of this machine builds images."""

    exit_code = NO_BUILDER
