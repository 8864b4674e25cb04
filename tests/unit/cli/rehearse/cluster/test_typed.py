"""`holdfast rehearse -f` as a person types it, against an API server with scripted answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.http.scripted_api_server import FakeApi, fake_api, listing
from tests.unit.cli.probe.test_manifests import RAW
from typer.testing import CliRunner

from holdfast_cli.main import app

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/vision/trainingjobs"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    with fake_api() as server:
        server.answers |= {("GET", JOBS): listing()}
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        yield server


def written(tmp_path: Path, **checkpoint: Any) -> str:
    raw = {**RAW, "spec": {**RAW["spec"], "checkpoint": {**RAW["spec"]["checkpoint"], **checkpoint}}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(raw))
    return str(path)


def rehearse(*arguments: str, code: int) -> str:
    result = CliRunner().invoke(app, ["rehearse", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a command after --, or a job with -f FILE"),
        (("-f", "FILE", "--", "true"), "a command after -- and -f FILE exclude each other"),
        (("-f", "FILE", "--folder", "out"), "only for a command; with -f the job of the file says it"),
        (("-f", "FILE", "--grace", "30s"), "only for a command"),
        (("-f", "FILE", "--progress", "step {step}"), "only for a command"),
        (("--tier", "spot", "--", "true"), "only with -f FILE: a command runs on this machine"),
        (("-n", "vision", "--", "true"), "only with -f FILE"),
        (("-f", "FILE", "--tier", "gold"), "no tier is named so; tiers of the job: spot, cpu"),
        (("-f", "FILE", "--namespace", "other"), "the job of the file is in vision"),
        (("-f", "FILE", "--acquire-timeout", "soon"), "must be a duration"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line_makes_nothing(
    api: FakeApi, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    file = written(tmp_path)
    assert words in rehearse(*(file if one == "FILE" else one for one in arguments), code=2)
    assert not [request for request in api.requests if request[0] != "GET"]


# Breaks if runs begin whose files nobody can read in the end.
def test_a_volume_that_only_pods_reach_is_refused_first(api: FakeApi, tmp_path: Path) -> None:
    storage = {"volumeClaim": {"name": "data", "path": "vit"}}
    said = rehearse("-f", written(tmp_path, storage=storage), code=1)
    assert "the PersistentVolumeClaim data, which only pods can mount" in said
    assert not [request for request in api.requests if request[0] != "GET"]


def test_a_crash_in_a_save_needs_a_folder(api: FakeApi, tmp_path: Path) -> None:
    file = written(tmp_path)
    said = rehearse("-f", file, "--with", "crash-in-save", code=1)
    assert "crash-in-save needs checkpoint.folder on a tier" in said
    assert api.requests == []
