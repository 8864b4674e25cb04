"""Raw JSON of the Kubernetes API, and its times."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.api.scalars import parse_time

Raw = Mapping[str, Any]

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def parse_optional_time(text: str | None) -> datetime | None:
    """The time of an RFC 3339 string, or None for None."""
    return parse_time(text) if text else None
