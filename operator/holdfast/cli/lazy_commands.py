"""Commands that are imported when they are typed: to import the libraries of all of them takes seconds."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Place(NamedTuple):
    """Where a command is: a function, or an app with commands of its own, named `module:name`.

    `summary` is the first sentence of its help, which lists of commands show.
    """

    name: str
    summary: str


class Later(TyperCommand):
    """Stands in lists for a command that is not imported."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, help=place.summary)
        self._place = place.name

    def load(self) -> Any:
        """The command itself."""
        module, _, name = self._place.partition(":")
        found = getattr(import_module(module), name)
        parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=self.name)
        else:
            parent.command(self.name)(found)
        return typer.main.get_group(parent).commands[str(self.name)]


class LazyGroup(TyperGroup):
    """A group of such commands. Its help and the completion of their names import none of them."""

    places: ClassVar[Mapping[str, Place]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, place in self.places.items():
            self.add_command(Later(name, place))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, imported; its name; and what stands after it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Later) else command, rest
