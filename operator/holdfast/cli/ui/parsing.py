"""Values of options for which typer has no type."""

from datetime import timedelta

import typer

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import parse_duration


def duration(option: str, text: str) -> timedelta:
    """What was given for an option that is a duration, such as 1h30m. Raises typer.BadParameter, which names it."""
    try:
        return parse_duration(text)
    except ScalarError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
