"""The commands holdfast-train export and import on a real S3 server. A Run starts from the import."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.support.http.s3_server import S3Server
from tests.support.trainer.stores import REPOSITORY, environment

import holdfast_train
from holdfast_train import Run
from holdfast_train.environment import Credentials


@pytest.fixture
def prefix(s3: S3Server) -> str:
    return f"s3://{s3.bucket}/exchange/{uuid.uuid4().hex}"


def holdfast_train_command(s3: S3Server, *args: object, secret: str | None = None) -> subprocess.CompletedProcess[str]:
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": secret or s3.secret_key}
    env = {**os.environ, **keys, "AWS_ENDPOINT_URL_S3": s3.endpoint, "PYTHONPATH": str(REPOSITORY / "images/trainer")}
    command = [sys.executable, "-m", "holdfast_train.exchange.command", *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(1500, 1500), torch.nn.Linear(1500, 3)).to(torch.bfloat16)


@pytest.mark.thorough
def test_import_train_and_export(s3: S3Server, prefix: str, tmp_path: Path) -> None:
    source = model(1)
    safetensors.torch.save_model(source, tmp_path / "model.safetensors")
    done = holdfast_train_command(s3, "import", tmp_path / "model.safetensors", "--to", f"{prefix}/in", "--step", 12)
    assert done.returncode == 0, done.stderr
    assert f"a new job starts from it with checkpoint.resume: {prefix}/in" in done.stdout
    assert done.stderr == ""

    trained = model(2)
    where = environment(f"{prefix}/job", 1, resume=f"{prefix}/in", **s3.variables)
    with Run(model=trained, environment=where) as run:
        assert run.resumed_from == 12
        assert all(map(torch.equal, trained.parameters(), source.parameters()))
        with torch.no_grad():
            trained[0].bias += 1
        run.step = 13
        assert run.save()
        run.left = True

    done = holdfast_train_command(s3, "export", f"{prefix}/job", tmp_path / "out.safetensors", "--only", "model")
    assert done.returncode == 0, done.stderr
    found = safetensors.torch.load_file(tmp_path / "out.safetensors")
    assert all(torch.equal(found[name], value) for name, value in trained.state_dict().items())

    with torch.device("meta"):
        empty = model(0)
    keys = Credentials(s3.access_key, s3.secret_key)
    assert holdfast_train.load_weights(empty, f"{prefix}/job", endpoint=s3.endpoint, credentials=keys) == []
    assert all(map(torch.equal, empty.parameters(), trained.parameters()))


def test_errors_of_the_storage(s3: S3Server, prefix: str, tmp_path: Path) -> None:
    for args, secret, code, said in (
        (("export", prefix, tmp_path / "out"), None, 4, "contains no checkpoint"),
        (("export", prefix, tmp_path / "out"), "wrong", 5, "SignatureDoesNotMatch"),
        (("export", "s3://no-such-bucket/x", tmp_path / "out"), None, 4, "does not exist"),
    ):
        done = holdfast_train_command(s3, *args, secret=secret)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
        assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
