"""What the tests of the profiles' status share."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.operator.profile_world import World


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all of them: hypothesis makes a world many times."""
    with asyncio.Runner() as found:
        yield found


@pytest.fixture
def world(runner: asyncio.Runner) -> World:
    """One profile, `grid`, without a job."""
    return World(runner)
