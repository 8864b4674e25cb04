"""A real S3 server for the trainer's tests, lighter than a whole local cluster."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from tests.support.free_ports import free_port
from tests.support.http.progress_endpoint import Endpoint, serving
from tests.support.waiting import wait_for

from holdfast_local import toolchain


class S3Server:
    """versitygw on a free port, which stays the same over restarts. With a folder `iam` it has other users too."""

    def __init__(self, binary: Path, folder: Path, iam: Path | None = None) -> None:
        self.bucket, self.access_key, self.secret_key = "runs", "access", "secret-key"
        self._binary, self.folder, self._iam = binary, folder, iam
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What a pod is told about this server."""
        return {
            "checkpoint_endpoint": self.endpoint,
            "checkpoint_region": "us-east-1",
            "HOLDFAST_CHECKPOINT_ACCESS_KEY_ID": self.access_key,
            "HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": self.secret_key,
        }

    def start(self) -> None:
        users = ["--iam-dir", self._iam, "--iam-cache-disable"] if self._iam else []
        self._process = subprocess.Popen(
            [self._binary, "--port", f"127.0.0.1:{self._port}", "--health", "/healthz", *users, "posix", self.folder],
            env=os.environ | {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._healthy, 20, "the S3 server to answer")

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def admin(self, *command: str) -> None:
        """Run a command of `versitygw admin`, such as delete-user."""
        keys = ["--access", self.access_key, "--secret", self.secret_key, "--endpoint-url", self.endpoint]
        subprocess.run([self._binary, "admin", *keys, *command], check=True, capture_output=True, timeout=20)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def client(self) -> object:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole session."""
    server = S3Server(toolchain.build(toolchain.TOOLS["versitygw"]), tmp_path_factory.mktemp("s3"))
    server.start()
    (server.folder / server.bucket).mkdir()
    yield server
    server.kill()


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """The server, running again after a test that stopped it."""
    yield s3_server
    if s3_server._process is None:
        s3_server.start()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    """A progress endpoint over TLS."""
    with serving(tmp_path) as found:
        yield found
