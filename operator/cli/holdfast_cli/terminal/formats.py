"""Small texts: ages, sizes, bars, sparklines. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
NOTHING = "-"


def span(value: timedelta | None) -> str:
    """`4s`, `3m12s`, `2h05m`, `9d4h`: two parts at most, as kubectl writes ages."""
    if value is None:
        return NOTHING
    seconds = max(int(value.total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d{hours % 24}h"
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    if minutes:
        return f"{minutes}m{seconds % 60:02}s"
    return f"{seconds}s"


def ago(at: datetime | None, now: datetime) -> str:
    """`3m12s ago`."""
    return NOTHING if at is None else f"{span(now - at)} ago"


def clock(at: datetime | None) -> str:
    """`14:03:59` in the local zone."""
    return NOTHING if at is None else f"{at.astimezone():%H:%M:%S}"


def moment(at: datetime | None) -> str:
    """`2026-11-21 14:03:59` in the local zone."""
    return NOTHING if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def count(value: int | None) -> str:
    """`12,345`."""
    return NOTHING if value is None else f"{value:,}"


def exact(value: timedelta) -> str:
    """As `span`, with tenths of a second below a minute: `6.1s`."""
    return span(value) if value >= timedelta(minutes=1) else f"{value.total_seconds():.1f}s"


def money(value: Decimal) -> str:
    """`1,412.30`; small amounts to a hundredth of a cent: `0.0034`."""
    return f"{value:,.2f}" if not value or abs(value) >= 1 else f"{value:.4f}"


def decimal(text: str | None) -> Decimal | None:
    """The value of a decimal string; None if it is not a finite number."""
    try:
        value = Decimal(text) if text is not None else None
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() else None


def number(text: str | None) -> float | None:
    """The value of a decimal string, for drawing only; None if it is not a finite number."""
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < float("inf") else None


def bar(fraction: float | None, width: int) -> str:
    """A progress bar of `width` columns, exact to an eighth of a column."""
    if fraction is None:
        return "─" * width
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text.ljust(width)


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as a row of blocks, at most `width` of them; each block is the mean of its share."""
    if not values or width < 1:
        return ""
    if len(values) > width:
        edges = [round(index * len(values) / width) for index in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(values), max(values)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in values)
