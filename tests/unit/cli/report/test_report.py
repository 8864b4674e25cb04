"""`holdfast report` from the command line: on folders, and against an API server with scripted answers."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.support.manifests.observed_jobs import UID, raw_job
from tests.support.pages.long_job import hang
from tests.support.pages.read_html import Read
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.stores import identity
from typer.testing import CliRunner, Result

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.report import gather
from holdfast_cli.storage import address as storage_address
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import Header, encode, new_key
from holdfast_train.storage.folder import FolderStorage

NAMESPACE = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
EVENTS = "/api/v1/namespaces/demo/events"
NODES = "/api/v1/nodes"
FORBIDDEN = failure(403, "Forbidden", 'events is forbidden: User "me" cannot list resource "events"')
CLAIM = {"storage": {"volumeClaim": {"name": "runs", "path": "demo/job"}}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a folder are written into a new one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server with the jobs `job` and `other`, whose checkpoints only pods can reach; $KUBECONFIG points to it."""
    with fake_api() as server:
        server.answers = {
            ("GET", f"{NAMESPACE}/job"): raw_job(checkpoint=CLAIM),
            ("GET", f"{NAMESPACE}/other"): raw_job("other", checkpoint=CLAIM),
            ("GET", EVENTS): listing(
                {"metadata": {"uid": "1"}, "involvedObject": {"uid": UID}, "reason": "Saved", "message": "saved step 7"}
            ),
            ("GET", NODES): listing(),
            ("GET", "/api/v1/pods"): listing(),
        }
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    """The storage of a job that is gone: two attempts, two checkpoints, a history, and the evidence of a hang."""
    storage = FolderStorage(tmp_path / "runs" / "old-job")
    (tmp_path / "runs").mkdir()
    save(attempt(storage, identity(1)), 10)
    segment(storage, 1, range(1, 16))
    save(attempt(storage, identity(2)), 20)
    segment(storage, 2, range(11, 21), resumed=10)
    storage.put("evidence/a1-n0-0123456789ab.json", json.dumps({**hang(), "attempt": 1, "jobUID": "uid-1"}).encode())
    return storage


def segment(storage: FolderStorage, number: int, steps: range, resumed: int | None = None) -> str:
    """A segment of the history; its key."""
    key = new_key(steps[0], number)
    rows = [Row(step, 1.8e9 + 60 * number + step, {"loss": 5 - step / 10}) for step in steps]
    storage.put(key, encode(Header("uid-1", number, f"run-{number}", float(number), resumed, None), rows))
    return key


def holdfast(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", *args])


def charts(html: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html)
    assert found
    charts: list[dict[str, Any]] = json.loads(found[1])
    return charts


def test_a_report_from_the_storage_alone(folder: FolderStorage) -> None:
    result = holdfast("./runs/old-job")
    assert result.exit_code == 0, result.output
    assert re.search(r"wrote job\.html, \d+\.\d KiB", result.output)
    html = Path("job.html").read_text(encoding="utf-8")
    text = Read(html).text
    for said in ("ns/ job", "The job is not in the cluster", "Steps 20", "1 2027-", "1–15 5", "Trainings that hung"):
        assert said in text, said
    loss = charts(html)[0]
    assert [(one["label"], one["lost"], one["x"][-1]) for one in loss["curves"]] == [
        ("attempt 1", False, 10), ("lost steps", True, 15), ("attempt 2", False, 20),
    ]  # fmt: skip


def test_a_job_of_the_cluster_whose_storage_cannot_be_reached(api: FakeApi) -> None:
    result = holdfast("job", "-o", "out.html")
    assert result.exit_code == 0, result.output
    assert "note:  the storage was not read: the checkpoints of job are in the PersistentVolumeClaim" in result.output
    text = Read(Path("out.html").read_text(encoding="utf-8")).text
    for said in (
        "demo/ job Running",
        "Step 250 of 1,000",
        "Saved saved step 7",
        "Why the job is",
        "only pods can mount",
    ):
        assert said in text, said


# Breaks if a missing right ends the whole report, or is not said in it.
def test_what_this_user_may_not_read_is_said(api: FakeApi) -> None:
    api.answers[("GET", EVENTS)] = FORBIDDEN
    api.answers[("GET", NODES)] = failure(403, "Forbidden", "nodes is forbidden")
    assert holdfast("job").exit_code == 0
    text = Read(Path("job.html").read_text(encoding="utf-8")).text
    assert 'the events were not read: events is forbidden: User "me" cannot list resource "events"' in text
    assert "nodes were not read: this user may not list them" in text
    assert "Step 250 of 1,000" in text


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (failure(403, "Forbidden", "no profiles for you"), "no profiles for you"),
        (failure(404, "NotFound", "gone"), "capacity profile gpus does not exist"),
        ({"metadata": {"name": "gpus"}, "spec": {"tiers": []}}, "its profile was not read"),
    ],
)
def test_a_profile_that_cannot_be_read(api: FakeApi, answer: dict[str, Any], wanted: str) -> None:
    api.answers[("GET", f"{NAMESPACE}/job")] = raw_job(checkpoint=CLAIM, capacity={"profile": "gpus"})
    api.answers[("GET", "/apis/holdfast.dev/v1alpha1/capacityprofiles/gpus")] = answer
    assert holdfast("job").exit_code == 0
    assert wanted in Read(Path("job.html").read_text(encoding="utf-8")).text


# Breaks if an S3 server that is away takes the report with it, or if a key comes into a file that is mailed.
def test_an_s3_server_that_does_not_answer(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "PATIENCE", 0.1)
    monkeypatch.setattr(storage_address, "PATIENCE", 0.1)
    s3 = {"bucket": "runs", "prefix": "a", "endpoint": "http://127.0.0.1:9", "credentialsSecret": "keys"}
    api.answers[("GET", f"{NAMESPACE}/job")] = raw_job(checkpoint={"storage": {"s3": s3}})
    keys = {"AWS_ACCESS_KEY_ID": b"the-access-key", "AWS_SECRET_ACCESS_KEY": b"the-secret-key"}
    data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
    api.answers[("GET", "/api/v1/namespaces/demo/secrets/keys")] = {"kind": "Secret", "data": data}
    result = holdfast("job")
    assert result.exit_code == 0, result.output
    html = Path("job.html").read_text(encoding="utf-8")
    assert "the storage was not read:" in html
    assert "forward a port to it and give --endpoint" in html
    assert "s3://runs/a" in html
    assert not re.search("the-(access|secret)-key", html + result.output)


def test_several_are_compared(api: FakeApi, folder: FolderStorage) -> None:
    result = holdfast("job", "other", "./runs/old-job")
    assert result.exit_code == 0, result.output
    text = Read(Path("comparison.html").read_text(encoding="utf-8")).text
    assert "demo/job · demo/other · ns/job" in text
    assert "Phase Running Running -" in text


def test_to_the_standard_output(folder: FolderStorage) -> None:
    result = holdfast("./runs/old-job", "-o", "-")
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert not list(Path().glob("*.html"))


# Breaks if the rest of a history is not drawn because a part of it is damaged.
def test_damaged_parts_are_said_and_the_rest_is_drawn(folder: FolderStorage) -> None:
    key = segment(folder, 2, range(21, 30), resumed=10)
    folder.put(key, folder.get(key)[:40])
    folder.put("evidence/a3-n0-0123456789ab.json", b"{")
    folder.put("evidence/a4-n0-0123456789ab.json", b'{"attempt": 4, "node": 0, "jobUID": "x"}')
    [newest] = folder.keys("log/")[-1:]
    folder.put(newest, b"broken")
    result = holdfast("./runs/old-job", "-o", "out.html")
    assert result.exit_code == 0, result.output
    html = Path("out.html").read_text(encoding="utf-8")
    text = Read(html).text
    assert charts(html)[0]["curves"]
    assert f"A part of the history is missing: {key}" in text
    assert "the list of checkpoints cannot be read" in text
    assert "the evidence of attempt 3 is damaged" in text
    assert "some evidence of attempt 4 has a form that this version cannot show" in text


@pytest.mark.parametrize(
    ("args", "code", "wanted"),
    [
        (("nobody",), ExitCode.NOT_FOUND, "there is no job nobody in namespace demo"),
        (("nobody",), ExitCode.NOT_FOUND, "if it was deleted, give the address of its storage"),
        (("./empty",), ExitCode.NOT_FOUND, "there is nothing of a training below"),
        (("./missing/folder",), ExitCode.NOT_FOUND, "missing/folder"),
        (("job", "-o", "no/such/folder.html"), ExitCode.FAILED, "no/such/folder.html cannot be written: No such file"),
        (("job", "-o", "."), ExitCode.FAILED, "cannot be written: Is a directory"),
        (("job",) * 17, ExitCode.USAGE, "17 trainings; at most 16 can be compared"),
        ((), ExitCode.USAGE, "Missing argument"),
    ],
)
def test_bad_input(api: FakeApi, args: tuple[str, ...], code: ExitCode, wanted: str) -> None:
    Path("empty").mkdir()
    result = holdfast(*args)
    assert result.exit_code == code, result.output
    assert wanted in result.output
    assert not list(Path().glob("*.html"))


def test_the_name_of_the_file_has_no_path_in_it(folder: FolderStorage, tmp_path: Path) -> None:
    strange = FolderStorage(tmp_path / "runs" / "..a b")
    segment(strange, 1, range(1, 3))
    assert holdfast(f"{tmp_path}/runs/..a b").exit_code == 0
    assert [one.name for one in tmp_path.glob("*.html")] == ["a-b.html"]


def test_hostile_documents_in_the_storage_are_said_and_the_rest_is_drawn(folder: FolderStorage) -> None:
    """Breaks if a tenant's files end the report with a traceback, or the pages, which read the same."""
    endless = json.dumps({**hang(), "attempt": "ENDLESS", "jobUID": "x"}).encode().replace(b'"ENDLESS"', b"1e999")
    assert b"1e999" in endless
    folder.put("evidence/a5-n0-0123456789ab.json", endless)
    folder.put("evidence/a6-n0-0123456789ab.json", b"[" * 200_000)
    for key in list(folder.keys("log/")):
        folder.put(f"log/{int(key.removeprefix('log/').split('.')[0]) + 1000:010}.json", b"[" * 200_000)
        break
    result = holdfast(folder.uri, "-o", "-")
    assert result.exit_code == 0, result.output
    assert "the evidence of attempt 6 is damaged: it is nested too deeply" in result.stdout
    assert "some evidence of attempt 5 has a form that this version cannot show" in result.stdout
    shown = CliRunner().invoke(app, ["evidence", folder.uri, "--attempt", "6"])
    assert isinstance(shown.exception, SystemExit)
    assert "has a form that this version cannot show" in shown.output
