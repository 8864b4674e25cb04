"""A pod around the tests of frameworks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.stores import variables


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """This process is in a pod; that of another attempt after a call."""

    def enter(attempt: int) -> None:
        for name, value in variables(f"file://{tmp_path}/prefix", attempt).items():
            monkeypatch.setenv(name, value)

    enter(1)
    return enter
