"""Whether the storage has the files that `trainer.code` names, asked of a real S3 server."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.free_ports import free_port
from tests.support.http.s3_server import S3Server
from tests.support.http.scripted_api_server import FakeApi, fake_api, listing
from tests.support.manifests.good_manifests import GOOD, changed
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_train.code.store import key_of
from holdfast_train.storage.opening import open_storage

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
HASH = "a" * 64
FIELD = "spec.trainer.code"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster that accepts the job; the user has no keys of their own."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.upper().endswith("_PROXY")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with fake_api() as server:
        server.answers = {("POST", JOBS): {}, ("GET", "/api/v1/nodes"): listing()}
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        yield server


def said(folder: Path, endpoint: str) -> str:
    """What `holdfast check` says of the files."""
    s3 = {"bucket": "runs", "prefix": "vision/vit", "endpoint": endpoint, "credentialsSecret": "keys"}
    change = {"spec/trainer/code": {"sha256": HASH}, "spec/checkpoint/storage/s3": s3}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(changed(GOOD, change)))
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0, result.output
    return next(line.strip() for line in result.stdout.splitlines() if FIELD in line)


def keys_of(server: S3Server) -> dict[str, object]:
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    return {"kind": "Secret", "data": {name: base64.b64encode(key.encode()).decode() for name, key in keys.items()}}


# Breaks if a job whose files were never sent is found out only by its first pod, or if one that has them is warned of.
def test_files_that_are_there_or_not(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "objects" / "runs").mkdir(parents=True)
    server = S3Server(tmp_path / "objects")
    server.start()
    try:
        api.answers["GET", "/api/v1/namespaces/demo/secrets/keys"] = keys_of(server)
        missing = f"warning: {FIELD}: s3://runs/vision/vit has no {key_of(HASH)}; `holdfast run --only-send` uploads it"
        assert said(tmp_path, server.endpoint).startswith(missing)
        open_storage("s3://runs/vision/vit", server.reached).put(key_of(HASH), b"x" * 10)
        assert said(tmp_path, server.endpoint) == f"ok: {FIELD}: the storage has these files (10 B)"
    finally:
        server.kill()


# Breaks if files count as there, or as missing, although nobody could ask; or if that ends the other checks.
def test_a_storage_that_cannot_be_asked_is_said(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_cli.check.stored_code.PATIENCE", 0.2)
    nowhere = f"http://127.0.0.1:{free_port()}"
    unchecked = f"warning: {FIELD}: whether the storage has these files was not checked: "
    assert said(tmp_path, nowhere).startswith(f"{unchecked}the Secret demo/keys with the job's keys does not exist")
    keys = {name: base64.b64encode(b"key").decode() for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    api.answers["GET", "/api/v1/namespaces/demo/secrets/keys"] = {"kind": "Secret", "data": keys}
    assert said(tmp_path, nowhere).startswith(unchecked)
