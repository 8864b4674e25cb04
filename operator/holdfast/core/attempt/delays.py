"""How long to wait after something that did not work: longer each time, up to a limit."""

from datetime import timedelta
from typing import Final
from zlib import crc32

from holdfast.core.observe.config import OperatorConfig

SHORT_TRIES: Final = 8  # losses in a row after which an outage is likely


def backoff(base: timedelta, limit: timedelta, times: int) -> timedelta:
    """base, 2 base, 4 base … up to limit; `times` counts from 1."""
    doubled: timedelta = base * 2 ** min(times - 1, 30)
    return min(doubled, limit)


def outage_delay(config: OperatorConfig, fruitless: int) -> timedelta:
    """The delay after many losses in a row that the platform caused: it doubles until it is an hour.

    An outage of the storage or of a registry may last for hours. Attempts every five minutes would cost a node each,
    and would use up spec.failure.maxFruitless in an hour and a half; so the default of 20 lasts for more than nine.
    """
    if fruitless <= SHORT_TRIES:
        return timedelta()
    return backoff(config.backoff_limit * 2, config.outage_backoff_limit, fruitless - SHORT_TRIES)


def spread(delay: timedelta, name: str) -> timedelta:
    """Half of the delay up to all of it: always the same for a name, and different for different names."""
    return delay * (0.5 + crc32(name.encode()) / 2**33)
