"""Values of options that may differ by tier: `VALUE` for all tiers, or `TIER=VALUE`."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

import typer

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import parse_duration, parse_money, parse_time
from holdfast_cli.simulate.climate import LONGEST_SPELL, SHORTEST_SPELL

T = TypeVar("T")
_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)/(hour|day|week)")
_SPANS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
SHORTEST, LONGEST = timedelta(seconds=SHORTEST_SPELL), timedelta(seconds=LONGEST_SPELL) / 2
LEAST_PACE: Final = timedelta(milliseconds=1)
_RATES: Final = "must be 0, or from 1 in 15 days to 60 an hour, such as 2/day, 0.5/hour or 3/week"


def by_tier(option: str, texts: Sequence[str], tiers: Sequence[str], parse: Callable[[str], T]) -> dict[str, T]:
    """The value of each tier that has one. Raises typer.BadParameter, which names the option and the tier."""
    general: dict[str, T] = {}
    own: dict[str, T] = {}
    for text in texts:
        name, named, value = text.partition("=")
        if named and name not in tiers:
            problem = f"{text}: no tier is named {name}; tiers of the grid: {', '.join(tiers)}"
            raise typer.BadParameter(problem, param_hint=option)
        try:
            found = parse(value if named else text)
        except ScalarError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error
        if named:
            own[name] = found
        else:
            general = dict.fromkeys(tiers, found)
    return general | own


def pace(text: str) -> timedelta:
    """The time of a step. Raises ScalarError if it is below LEAST_PACE."""
    if (found := parse_duration(text)) < LEAST_PACE:
        raise ScalarError(text, "the time of a step, longer than 0s and at least 1ms, such as 350ms or 12s")
    return found


def rate(text: str) -> timedelta | None:
    """The mean time between two interruptions from how often they come, such as 2/day; None for 0. Raises
    ScalarError."""
    if text == "0":
        return None
    if (match := _RATE.fullmatch(text)) is None:
        raise ScalarError(text, _RATES)
    number = float(match[1])
    if not number:
        return None
    mean = _SPANS[match[2]] / number
    if not SHORTEST <= mean <= LONGEST:
        raise ScalarError(text, _RATES)
    return mean


def out(text: str) -> timedelta:
    """The mean time for which Spot stays out. Raises ScalarError."""
    found = parse_duration(text)
    if not SHORTEST <= found <= LONGEST:
        raise ScalarError(text, "must be 1m to 15d, such as 45m")
    return found


def month(text: str) -> Decimal:
    """The price of a month. Raises ScalarError."""
    return parse_money(text)


def deadline(text: str, now: datetime) -> timedelta:
    """The time until a deadline: a duration, or a time. Raises typer.BadParameter unless it is in the future."""
    try:
        found = parse_duration(text) if re.fullmatch(r"[0-9a-z]+", text) else parse_time(text) - now
    except ScalarError as error:
        problem = f"{text}: must be a duration from the start, such as 8d, or a time, such as 2027-01-31T00:00:00Z"
        raise typer.BadParameter(problem, param_hint="--deadline") from error
    if found <= timedelta(0):
        raise typer.BadParameter(f"{text}: has passed; it must be in the future", param_hint="--deadline")
    return found


def paths(texts: Sequence[str], tiers: Sequence[str]) -> dict[str, list[Path]]:
    """The files of traces by tier; a path without a tier is for all of them. Raises typer.BadParameter."""
    found: dict[str, list[Path]] = {}
    for text in texts:
        name, named, value = text.partition("=")
        if named and name in tiers:
            found.setdefault(name, []).append(Path(value))
            continue
        if not Path(text).exists():
            problem = f"{text}: there is no such file or folder, and no Spot tier is named so; got tiers: "
            raise typer.BadParameter(problem + (", ".join(tiers) or "none"), param_hint="--traces")
        for tier in tiers:
            found.setdefault(tier, []).append(Path(text))
    return found
