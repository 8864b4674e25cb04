"""How kubectl is used: what it says too early is no failure of an installation."""

import shlex
from pathlib import Path

import pytest

from holdfast_local import access
from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout

# Fails twice as kubectl does that looks before the API server has written a condition; then it does what `{1}` says.
KUBECTL = """#!/bin/sh
if [ "$3" = wait ]; then
  echo look >> {0}
  if [ "$(wc -l < {0})" -lt 3 ]; then
    echo "error: .status.conditions accessor error: <nil> is of the type <nil>, expected []interface{{}}" >&2
    exit 1
  fi
  {1}
fi
"""


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(access, "_PAUSE", 0.0)
    return Layout(tmp_path)


def put_kubectl(layout: Layout, then: str) -> Path:
    layout.bin.mkdir(parents=True)
    path = layout.bin / "kubectl"
    path.write_text(KUBECTL.format(shlex.quote(str(layout.root / "looks")), then))
    path.chmod(0o755)
    return layout.root / "looks"


def test_definitions_without_a_condition_are_looked_at_again(layout: Layout) -> None:
    """Breaks if a cluster cannot be installed because kubectl looks a moment too early."""
    looks = put_kubectl(layout, "exit 0")
    access.install(layout)
    assert looks.read_text().count("look") == 3


def test_another_failure_is_told_at_once(layout: Layout) -> None:
    looks = put_kubectl(layout, "echo 'error: timed out waiting for the condition' >&2; exit 1")
    with pytest.raises(LocalError, match="timed out waiting"):
        access.install(layout)
    assert looks.read_text().count("look") == 3
