"""Errors of the demo."""

from holdfast.cli.errors import CliError


class DemoError(CliError):
    """The demo cannot go on."""
