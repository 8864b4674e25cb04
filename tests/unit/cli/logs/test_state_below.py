"""`holdfast logs -f` on a terminal: the state of the job below the lines."""

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.living_api_server import LivingApi, living_api
from tests.support.manifests.observed_jobs import RUNNING, UID, raw_job
from tests.support.operator.fake_api_server import raw_pod
from tests.support.terminal import on_terminal

from holdfast.api.scalars import format_time
from holdfast_cli.errors import ExitCode

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
PODS = "/api/v1/namespaces/demo/pods"
LOG = f"{PODS}/job-3-0/log"
COMMAND = [str(Path(sys.executable).with_name("holdfast")), "logs", "job", "-f"]
STATE = "Running · dedicated · step 250 / 1,000 (25.0%) · ETA 3h12m · 4.10 of 50.00 spent · 1 interruption"


def job(**changes: Any) -> dict[str, Any]:
    """A running job. `changes`: fields of its status."""
    status = {**copy.deepcopy(RUNNING), "ledger": {"spent": "4.1"}, **changes}
    status["progress"]["eta"] = format_time(datetime.now(UTC) + timedelta(hours=3, minutes=12, seconds=59))
    found = raw_job(status=status)
    found["spec"]["capacity"]["budget"] = "50"
    return found


def pod(attempt: int = 3, **state: Any) -> dict[str, Any]:
    name, uid = f"job-{attempt}-0", f"p{attempt}"
    found = raw_pod(name, uid, job="job", job_uid=UID, attempt=attempt, node="dedicated-1", phase="Running")
    found["metadata"]["namespace"] = "demo"
    found["status"]["containerStatuses"] = [{"name": "trainer", "state": state}]
    return found


def written(second: int, *lines: bytes) -> bytes:
    """The lines as a kubelet gives them."""
    return b"".join(b"2026-11-21T09:02:%02d.%09dZ %s\n" % (second, at, line) for at, line in enumerate(lines))


@pytest.fixture
def api() -> Iterator[LivingApi]:
    """A cluster with a job that runs and has written a line."""
    with living_api() as server:
        server.put(JOBS, job())
        server.put(PODS, pod(running={"startedAt": "2026-11-21T09:01:50Z"}))
        server.write_log(LOG, written(1, b"first"))
        yield server


@pytest.fixture
def environment(api: LivingApi, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "KUBERNETES_SERVICE_HOST"}
    return {**kept, "KUBECONFIG": str(api.kubeconfig(tmp_path / "config"))}


def end(api: LivingApi) -> None:
    """The program ends, and its job is complete."""
    api.put(JOBS, job(phase="Completed", current=None))
    api.put(PODS, pod(terminated={"exitCode": 0}))
    api.write_log(LOG, b"", ends=True)


# Breaks if the line is missing, is not the last one, changes a byte of the program, stands between lines, does not
# follow the job and the width, or does not stay as the last line of a job that is over.
def test_the_state_stands_below_the_lines_until_the_job_is_over(api: LivingApi, environment: dict[str, str]) -> None:
    with on_terminal(COMMAND, environment) as (terminal, process):
        terminal.shows(STATE)
        assert terminal.rows[-2:] == ["first", STATE]
        assert terminal.cursor == (len(terminal.rows) - 1, 0)

        api.write_log(LOG, written(2, b"\x1b[31mred", b"still red\x1b[0m", b" 10%\r 50%\r100%"))
        terminal.shows("100%")
        assert "\x1b[31mred\r\nstill red\x1b[0m\r\n100%\r\n" in terminal.output
        terminal.shows(STATE)
        assert terminal.rows[-5:] == ["first", "red", "still red", "100%", STATE]

        terminal.resize(40)
        terminal.shows(STATE[:39] + "…")
        assert terminal.rows[-2:] == ["100%", STATE[:39] + "…"]
        terminal.resize(100)
        terminal.shows(STATE)
        api.put(JOBS, job(tier="cpu", restarts={"interruptions": 2}))
        terminal.shows("Running · cpu")
        terminal.shows("2 interruptions")
        assert sum("Running" in row for row in terminal.rows) == 1

        api.write_log(f"{PODS}/job-4-0/log", written(4, b"again"), ends=True)
        api.put(PODS, pod(running={"startedAt": "2026-11-21T09:01:50Z"}), pod(4, terminated={"exitCode": 0}))
        end(api)
        assert process.wait(30) == ExitCode.OK
        terminal.shows("Completed · step")
        heading = "--- attempt 4, node dedicated-1 ---"
        assert terminal.rows[-5:] == ["100%", heading, "again", STATE.replace("Running · dedicated", "Completed")
            .replace("25.0%) · ETA 3h12m", "100.0%)"), ""]  # fmt: skip
        assert terminal.cursor == (len(terminal.rows) - 1, 0)


# Breaks if Ctrl-C, or an error, leaves the line or a part of it, or a line that has come is not shown any more.
def test_ctrl_c_erases_the_line(api: LivingApi, environment: dict[str, str]) -> None:
    with on_terminal(COMMAND, environment) as (terminal, process):
        terminal.shows(STATE)
        api.write_log(LOG, written(2, b"second"))
        terminal.shows("second")
        terminal.type(b"\x03")
        assert process.wait(30) == ExitCode.INTERRUPTED
        assert [row for row in terminal.rows if row][-2:] == ["first", "second"]
        assert not any("Running" in row for row in terminal.rows)
        assert terminal.cursor == (len(terminal.rows) - 1, 0)


# Breaks if the error about a job that is deleted stands beside a part of the line.
def test_an_error_stands_on_a_line_of_its_own(api: LivingApi, environment: dict[str, str]) -> None:
    with on_terminal(COMMAND, environment) as (terminal, process):
        terminal.shows(STATE)
        api.delete(PODS, "job-3-0")
        api.delete(JOBS, "job")
        api.write_log(LOG, b"", ends=True)
        assert process.wait(30) == ExitCode.NOT_FOUND
        terminal.shows("error: the job was deleted")
        assert [row for row in terminal.rows if row][-2:] == ["first", "error: the job was deleted"]


# Breaks if the line is written into a file, or onto a terminal that shows its bytes in place of moving the cursor.
@pytest.mark.parametrize("where", ["pipe", "only errors on the terminal", "dumb"])
def test_elsewhere_there_is_no_line(api: LivingApi, environment: dict[str, str], where: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["sh", "-c", f'exec "$@" > {out}', "sh", *COMMAND] if where.startswith("only") else COMMAND
    end(api)
    if where == "pipe":
        both = subprocess.check_output(COMMAND, env=environment, stderr=subprocess.STDOUT, timeout=60)
        assert both.endswith(b"first\n")
        assert b"Completed" not in both
        return
    with on_terminal(command, environment, TERM="dumb" if where == "dumb" else "xterm") as (terminal, process):
        assert process.wait(60) == ExitCode.OK
        terminal.shows("--- attempt 3")
        assert "Completed" not in terminal.output
    assert where == "dumb" or out.read_bytes() == b"first\n"


# Breaks if the line has colours although NO_COLOR is set.
def test_no_color(api: LivingApi, environment: dict[str, str]) -> None:
    with on_terminal(COMMAND, environment, NO_COLOR="1") as (terminal, _):
        terminal.shows(STATE)
        assert "\x1b[32m" not in terminal.output
