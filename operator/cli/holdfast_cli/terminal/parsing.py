"""Parse option values for which typer has no type."""

from datetime import timedelta

import typer

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import parse_duration, quantity_value


def duration(option: str, text: str) -> timedelta:
    """The value of an option that is a duration, such as 1h30m. Raises typer.BadParameter, which names the option."""
    try:
        return parse_duration(text)
    except ScalarError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def size(option: str, text: str) -> int:
    """The value of an option that is a number of bytes, such as 12Gi. Raises typer.BadParameter if it is below 1."""
    try:
        found = int(quantity_value(text))
    except ScalarError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if found < 1:
        raise typer.BadParameter(f"{text}: must be at least 1 byte, such as 12Gi", param_hint=option)
    return found
