"""Parse option values for which typer has no type."""

from datetime import timedelta

import typer

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import parse_duration


def duration(option: str, text: str) -> timedelta:
    """The value of an option that is a duration, such as 1h30m. Raises typer.BadParameter, which names the option."""
    try:
        return parse_duration(text)
    except ScalarError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
