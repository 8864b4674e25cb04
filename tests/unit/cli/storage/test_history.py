"""The history of a job is read within a time, and what stands in the way is said."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import fake_api
from tests.support.manifests.observed_jobs import UID, raw_job
from typer.testing import CliRunner

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.storage import history
from holdfast_cli.storage.address import Found
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row

NAMESPACE = "/apis/holdfast.dev/v1alpha1/namespaces/demo"
JOB = f"{NAMESPACE}/trainingjobs/job"
EVENTS = "/api/v1/namespaces/demo/events"
ROWS = [Row(step, 0.0, {"loss": 5.0 / step}) for step in range(1, 31)]


TRUSTED = ("--endpoint", "http://127.0.0.1:1")  # one's own keys may go there


def holdfast(tmp_path: Path, *args: str, **storage: Any) -> Any:
    where = storage or {"s3": {"bucket": "runs", "prefix": "x", "endpoint": "http://127.0.0.1:1", "region": "r"}}
    with fake_api() as api:
        job = raw_job(checkpoint={"storage": where})
        api.answers = {
            ("GET", JOB): job,
            ("GET", f"{NAMESPACE}/trainingjobs"): {"metadata": {"resourceVersion": "1"}, "items": [job]},
            ("GET", EVENTS): {"metadata": {"resourceVersion": "1"}, "items": []},
        }
        args = (*args, "--kubeconfig", str(api.kubeconfig(tmp_path / "config")))
        return CliRunner().invoke(app, args), api


@pytest.fixture(autouse=True)
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "keys")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(found: Found, uid: str) -> History:
        assert (found.uri, uid) == ("s3://runs/x", UID)
        return History([Part(2, ROWS, 30)], ["series/x is damaged"])

    monkeypatch.setattr(history, "_read", read)


@pytest.mark.usefixtures("recorded")
def test_describe_shows_the_whole_curve(tmp_path: Path) -> None:
    result, _ = holdfast(tmp_path, "describe", "job", "--history", *TRUSTED)
    assert result.exit_code == 0, result.output
    assert "LOSS OVER ALL ATTEMPTS" in result.output
    assert "5 at step 1, 0.16667 at step 30" in result.output
    assert "not shown: series/x is damaged" in result.output


@pytest.mark.usefixtures("recorded")
def test_watch_shows_the_whole_curve(tmp_path: Path) -> None:
    result, _ = holdfast(tmp_path, "watch", "job", "--history", "--once", *TRUSTED)
    assert result.exit_code == 0, result.output
    assert "5 at step 1, 2.113 at step 250" in result.output  # and goes on with what is seen live


# Breaks if a plain describe or watch touches the storage: it would need keys, and could hang.
@pytest.mark.parametrize("line", ["describe job", "watch job --once"])
def test_without_the_option_no_storage_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(history, "_read", lambda *_: pytest.fail("the storage was read"))
    result, api = holdfast(tmp_path, *line.split())
    assert result.exit_code == 0, result.output
    assert not [path for _, path, _ in api.requests if "secrets" in path]


# Breaks if a storage that cannot be read hides the rest, or is not said.
@pytest.mark.parametrize(
    ("storage", "code", "why"),
    [
        ({}, ExitCode.NO_ANSWER, "127.0.0.1:1"),
        ({"volumeClaim": {"name": "disk", "path": "x"}}, ExitCode.FAILED, "only pods can mount"),
    ],
)
def test_a_storage_that_cannot_be_read_is_said_after_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: dict[str, Any], code: ExitCode, why: str
) -> None:
    monkeypatch.setattr(history, "PATIENCE", 0.0)
    result, _ = holdfast(tmp_path, "describe", "job", "--history", *TRUSTED, **storage)
    assert result.exit_code == code
    assert "WHAT HAPPENS NEXT" in result.output
    assert why in result.output
    watched, _ = holdfast(tmp_path, "watch", "job", "--history", "--once", *TRUSTED, **storage)
    assert watched.exit_code == 0
    assert "the history cannot be shown" in watched.output


# Breaks if a storage that neither answers nor refuses keeps the command for ever.
def test_a_storage_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()
    monkeypatch.setattr(history, "LIMIT", 0.05)
    monkeypatch.setattr(history, "_read", lambda *_: ends.wait(60))
    try:
        result, _ = holdfast(tmp_path, "describe", "job", "--history", *TRUSTED)
    finally:
        ends.set()
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "reading the history below s3://runs/x took over" in result.output


def test_all_jobs_have_no_history(tmp_path: Path) -> None:
    result, _ = holdfast(tmp_path, "watch", "--history")
    assert result.exit_code == 2
    assert "--history needs a job" in result.output
