"""Fixtures of the trainer's unit tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.endpoint import Endpoint, serving


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    """A progress endpoint over TLS."""
    with serving(tmp_path) as found:
        yield found
