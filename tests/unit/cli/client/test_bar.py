"""The bar of `Job.wait`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.living_api_server import LivingApi, living_api
from tests.support.manifests.observed_jobs import RUNNING, raw_job
from tests.support.terminal import on_terminal

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
STATE = "Running · dedicated · step 250 / 1,000 (25.0%)"


@pytest.fixture
def api() -> Iterator[LivingApi]:
    with living_api() as server:
        server.put(JOBS, raw_job())
        yield server


def program(api: LivingApi, tmp_path: Path, arguments: str = "") -> list[str]:
    """Waits for the job."""
    config = str(api.kubeconfig(tmp_path / "config"))
    words = f"from holdfast import Client; print(Client(kubeconfig={config!r}).get('job').wait({arguments}).phase)"
    return [sys.executable, "-c", words]


def complete(api: LivingApi) -> None:
    api.put(JOBS, raw_job(status={**RUNNING, "phase": "Completed", "current": None}))


# Breaks if a person who waits sees nothing, if the bar does not follow the job, or if its last state is lost.
def test_a_terminal_shows_a_bar(api: LivingApi, tmp_path: Path) -> None:
    with on_terminal(program(api, tmp_path), os.environ) as (terminal, process):
        terminal.shows(STATE)
        complete(api)
        assert process.wait(30) == 0
        terminal.shows("━ Completed · step 250 / 1,000 (100.0%)")
        assert [row for row in terminal.rows if row][-1] == "Completed"


# Breaks if a program that is not watched by a person gets bytes that it has not asked for, or one that asks gets none.
@pytest.mark.parametrize("arguments", ["", "progress=True"])
def test_a_file_has_no_bar_unless_it_is_wanted(api: LivingApi, tmp_path: Path, arguments: str) -> None:
    complete(api)
    done = subprocess.run(program(api, tmp_path, arguments), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "Completed\n"
    assert ("Completed · step 250" in done.stderr) is bool(arguments)
    assert bool(done.stderr) is bool(arguments)
