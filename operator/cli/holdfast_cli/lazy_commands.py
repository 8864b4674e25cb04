"""Commands that are imported only when they are typed: importing the libraries of all commands takes seconds."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast_cli.errors import CliError

GROUP: Final = "holdfast.commands"


class Place(NamedTuple):
    """Where a command is defined: `module:name` of a function, or of an app with commands of its own.

    `summary` is the first sentence of the command's help. Lists of commands show it. With `takes_command`, options
    after the first argument are those of a program that the command starts, also without `--`.
    """

    name: str
    summary: str
    takes_command: bool = False

    def find(self, _command: str) -> Any:
        """Import the command."""
        module, _, name = self.name.partition(":")
        return getattr(import_module(module), name)


class Plugin(NamedTuple):
    """A command of another distribution: an entry point of GROUP with the name of the command.

    `install` is what a person types to install it. `summary` is as in Place.
    """

    install: str
    summary: str

    def find(self, command: str) -> Any:
        """Import the command. Raises CliError if no installed distribution has it."""
        from importlib.metadata import entry_points  # noqa: PLC0415 - takes a fifth of the time of `holdfast --help`

        for found in entry_points(group=GROUP, name=command):
            return found.load()
        raise CliError(f"`holdfast {command}` is not installed", hint=self.install)


class LazyCommand(TyperCommand):
    """A command that is listed but not imported yet."""

    def __init__(self, name: str, place: Place | Plugin) -> None:
        super().__init__(name, help=place.summary)
        self._place = place

    def load(self) -> Any:
        """Import the command. Raises CliError if it is of a distribution that is not installed."""
        found = self._place.find(str(self.name))
        parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=self.name)
        else:
            parent.command(self.name)(found)
        command = typer.main.get_group(parent).commands[str(self.name)]
        _show_repeated(command)
        if isinstance(self._place, Place) and self._place.takes_command:
            command.allow_interspersed_args = False
        return command


def _show_repeated(command: Any) -> None:
    """Show values that may be repeated as `<str>...`: typer shows Python's `<list[str]>`."""
    for child in getattr(command, "commands", {}).values():
        _show_repeated(child)
    for parameter in command.params:
        parameter.display_type = partial(_repeated, parameter.display_type)


def _repeated(shown: Callable[[Any], str | None], context: Any) -> str | None:
    text = shown(context)
    return None if text is None else re.sub(r"^<list\[(.*)\]>$", r"<\1>...", text)


class LazyGroup(TyperGroup):
    """A group of lazy commands. Its help and the completion of command names import none of them."""

    places: ClassVar[Mapping[str, Place | Plugin]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, place in self.places.items():
            self.add_command(LazyCommand(name, place))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that was typed, the imported command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
