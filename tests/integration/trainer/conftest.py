"""A real S3 server and a progress endpoint for the trainer's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint, serving
from tests.support.http.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole session."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
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
