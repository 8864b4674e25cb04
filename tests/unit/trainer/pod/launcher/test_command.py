"""The command: what it tells torchrun, and what it says without a command."""

from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of

from holdfast_train.pod.launcher import command


@pytest.mark.parametrize(("grace", "seconds"), [(100.0, 90), (30.0, 24), (5.0, 4), (0.5, 1), (3600.0, 3590)])
def test_torchrun_waits_less_than_the_grace(grace: float, seconds: int) -> None:
    assert command.shutdown_timeout(grace) == seconds


def test_no_command(tmp_path: Path) -> None:
    process = start(tmp_path / "log")
    process.communicate(timeout=30)
    assert process.returncode == 127
    assert verdict_of(tmp_path / "log")["reason"] == "CommandNotFound"
