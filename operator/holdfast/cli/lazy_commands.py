"""Commands that are imported only when they are typed: importing the libraries of all commands takes seconds."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast.cli.errors import CliError

_LOCAL: Final = ("boto3", "filelock", "psutil")  # what the extra `local` adds to `cli`


class Place(NamedTuple):
    """Where a command is defined: `module:name` of a function, or of an app with commands of its own.

    `summary` is the first sentence of the command's help. Lists of commands show it.
    """

    name: str
    summary: str


class LazyCommand(TyperCommand):
    """A command that is listed but not imported yet."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, help=place.summary)
        self._place = place.name

    def load(self) -> Any:
        """Import the command. Raises CliError if the packages of the extra `local` are missing."""
        module, _, name = self._place.partition(":")
        try:
            found = getattr(import_module(module), name)
        except ModuleNotFoundError as missing:
            if missing.name not in _LOCAL:
                raise
            hint = "pip install 'holdfast[local]'"
            raise CliError(f"`holdfast {self.name}` needs packages that are not installed", hint=hint) from missing
        parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=self.name)
        else:
            parent.command(self.name)(found)
        command = typer.main.get_group(parent).commands[str(self.name)]
        _show_repeated(command)
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

    places: ClassVar[Mapping[str, Place]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, place in self.places.items():
            self.add_command(LazyCommand(name, place))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that was typed, the imported command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
