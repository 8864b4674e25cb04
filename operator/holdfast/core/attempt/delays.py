"""How long to wait after something that did not work: longer each time, up to a limit."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Final
from zlib import crc32

from holdfast.api.attempt import AttemptRecord
from holdfast.core.observe.config import OperatorConfig

QUICK: Final = timedelta(seconds=10)  # from the order to start until the end
CREATION: Final = timedelta(milliseconds=50)  # what each further pod of an attempt takes to create, at most
SHORT_TRIES: Final = 8  # interruptions in a row after which an outage is likely


def backoff(base: timedelta, limit: timedelta, times: int) -> timedelta:
    """base, 2 base, 4 base … up to limit; `times` counts from 1."""
    doubled: timedelta = base * 2 ** min(times - 1, 30)
    return min(doubled, limit)


def outage_delay(config: OperatorConfig, fruitless: int) -> timedelta:
    """The delay after many interruptions in a row that the platform caused: it doubles until it is an hour.

    An outage of the storage or of a registry may last for hours. Attempts every five minutes would cost a node each,
    and would use up spec.failure.maxFruitless in an hour and a half; so the default of 20 lasts for more than nine.
    """
    if fruitless <= SHORT_TRIES:
        return timedelta()
    return backoff(config.backoff_limit * 2, config.outage_backoff_limit, fruitless - SHORT_TRIES)


def quick_delay(config: OperatorConfig, history: Sequence[AttemptRecord]) -> timedelta:
    """The delay before the next start in the same pods if the last attempts were over within seconds of their start.

    Nothing else slows such attempts down: no pod is created, no image is pulled. The first one costs no delay.
    """
    times = len(list(takewhile(_was_quick, reversed(history))))
    return backoff(timedelta(seconds=1), config.backoff_limit, times - 1) if times > 1 else timedelta()


def _was_quick(record: AttemptRecord) -> bool:
    return record.started_at is not None and record.ended_at - record.started_at < QUICK


def spread(delay: timedelta, name: str) -> timedelta:
    """Half of the delay up to all of it: always the same for a name, and different for different names."""
    return delay * (0.5 + crc32(name.encode()) / 2**33)
