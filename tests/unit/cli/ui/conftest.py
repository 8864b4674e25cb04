"""The server of the pages inside of the test, on an API server that lives."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.support.http.living_api_server import LivingApi, living_api
from tests.support.manifests.fleet import EVENTS, JOBS, PROFILES, hero, profile

from holdfast_cli.cluster import live_list
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.ui.app import Pages, serve
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.command import listening
from holdfast_cli.ui.security import POST_TOKEN, Guard


class Ui:
    """The server, and a client that is let in."""

    def __init__(self, cluster: Cluster, guard: Guard, session: ClientSession) -> None:
        self.cluster = cluster
        self.guard = guard
        self.session = session
        self.base = f"http://127.0.0.1:{guard.port}"
        self._cookie = {"Cookie": f"holdfast-{guard.port}={guard.token}"}

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text."""
        async with self.session.get(f"{self.base}{path}", headers=self._cookie) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, **data: str) -> tuple[int, str]:
        """Status and text of an action."""
        headers = {**self._cookie, "Origin": self.base, POST_TOKEN: self.guard.post_token}
        async with self.session.post(f"{self.base}{path}", headers=headers, data=data or {"x": ""}) as answer:
            return answer.status, await answer.text()

    def events(self, page: str) -> Any:
        """The stream of a page."""
        return self.session.get(f"{self.base}/events", params={"page": page}, headers=self._cookie)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[LivingApi]:
    """A server with one job and one profile. Watches that end are begun again at once."""
    monkeypatch.setattr(live_list, "PAUSE", 0.02)
    monkeypatch.setattr(live_list, "AGAIN", 0.02)
    for name in ("KUBERNETES_SERVICE_HOST", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    now = datetime.now(UTC)
    with living_api() as server:
        server.put(JOBS, hero(now))
        server.put(PROFILES, profile(now))
        server.put(EVENTS)
        yield server


@pytest.fixture
def started(api: LivingApi, tmp_path: Path) -> Callable[[], AbstractAsyncContextManager[Ui]]:
    """Starts the server of the pages."""

    @asynccontextmanager
    async def start() -> AsyncIterator[Ui]:
        async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client, ClientSession() as session:
            cluster = Cluster(client, "demo")
            async with cluster.running():
                with listening(0) as sock:
                    guard = Guard(sock.getsockname()[1])
                    runner = await serve(Pages(cluster, guard, "namespace demo").app(), sock)
                    try:
                        yield Ui(cluster, guard, session)
                    finally:
                        await session.close()
                        await runner.cleanup()

    return start
