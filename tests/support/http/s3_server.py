"""A real S3 server for tests, lighter than a whole local cluster."""

import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import boto3
import psutil
from botocore.config import Config
from tests.support.free_ports import free_port
from tests.support.waiting import wait_for

from holdfast_local import toolchain
from holdfast_local.pki import KeyFiles
from holdfast_train.environment import Credentials
from holdfast_train.storage import s3_server


class S3Server:
    """versitygw on a free port, which stays the same over restarts. With a folder `iam` it has other users too.

    With `tls`, a certificate and its key, it speaks HTTPS. `options`: further ones of its command line.
    """

    def __init__(
        self, folder: Path, iam: Path | None = None, *, tls: KeyFiles | None = None, options: Sequence[str] = ()
    ) -> None:
        self.bucket, self.access_key, self.secret_key = "runs", "access", "secret-key"
        self._binary, self.folder, self._iam = toolchain.build(toolchain.TOOLS["versitygw"]), folder, iam
        self._tls, self._options = tls, options
        self.port = free_port()
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def reached(self) -> s3_server.S3Server:
        """How it is reached, with all rights."""
        return s3_server.S3Server(self.endpoint, credentials=Credentials(self.access_key, self.secret_key))

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
        tls = ["--cert", self._tls.cert, "--key", self._tls.key] if self._tls else []
        more = [*users, *tls, *self._options]
        self._process = subprocess.Popen(
            [self._binary, "--port", f"127.0.0.1:{self.port}", "--health", "/healthz", *more, "posix", self.folder],
            env=os.environ | {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._healthy, 20, "the S3 server to answer")

    def _healthy(self) -> bool:
        try:
            anybody = ssl._create_unverified_context() if self._tls else None
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=1, context=anybody) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    @property
    def written(self) -> int:
        """Bytes that the server has written so far, into files and connections."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).io_counters().write_chars)

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
