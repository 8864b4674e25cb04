"""What `holdfast` says when the packages of an extra are not installed."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("missing", "command", "wanted"),
    [
        ("typer", "--help", "error: the `holdfast` command needs the extra `cli`: install"),
        ("rich", "--help", "error: the `holdfast` command needs the extra `cli`: install"),
        ("psutil", "local", "hint:  pip install 'holdfast[local]'"),
        ("filelock", "demo", "hint:  pip install 'holdfast[local]'"),
    ],
)
def test_a_missing_extra_is_named(missing: str, command: str, wanted: str) -> None:
    line = f"import sys; sys.modules[{missing!r}] = None; from holdfast.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", line, command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert wanted in done.stderr
    assert "Traceback" not in done.stderr
