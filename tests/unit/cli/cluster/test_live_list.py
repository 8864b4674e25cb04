"""A list that stays current: what is read again, and what ends it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing

from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import live_list
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.live_list import LiveList

PATH = "/api/v1/namespaces/demo/events"


def item(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "demo", "uid": f"u-{name}", "resourceVersion": str(version)},
        **more,
    }


async def names_after(api: FakeApi, tmp_path: Path, wanted: list[str]) -> list[str]:
    """The names in the list once they are the wanted ones."""
    async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client:
        found = LiveList(client, PATH)
        async with found.running(), asyncio.timeout(20):
            while sorted(raw["metadata"]["name"] for raw in found.objects) != wanted:
                found.check()
                await asyncio.sleep(0.01)
    return wanted


async def test_changes_are_applied_without_another_list(tmp_path: Path) -> None:
    with fake_api() as api:
        api.answers["GET", PATH] = listing(item("a"), item("b"))
        added, gone = {"type": "ADDED", "object": item("c", 3)}, {"type": "DELETED", "object": item("a", 4)}
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
        api.watches[PATH] = [[added, gone, bookmark]]
        await names_after(api, tmp_path, ["b", "c"])
        assert [method for method, _, _ in api.requests].count("GET") == 1


async def test_an_expired_version_reads_the_list_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_list, "PAUSE", 0.01)
    with fake_api() as api:
        lists = iter([listing(item("a")), listing(item("b"))])
        api.answers["GET", PATH] = lambda _: next(lists)
        api.watches[PATH] = [failure(410, "Expired", "too old")]
        await names_after(api, tmp_path, ["b"])


async def test_an_error_of_the_program_does_not_end_the_updates_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    with fake_api() as api:
        api.answers["GET", PATH] = listing(item("a"))
        monkeypatch.setattr(Client, "watch", broken)
        with pytest.raises(ZeroDivisionError):
            await names_after(api, tmp_path, ["never"])


# Breaks if a server that is away for a while ends the list, or empties it.
async def test_a_server_that_was_away_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_list, "PAUSE", 0.01)
    away = failure(503, "ServiceUnavailable", "etcd")
    with fake_api() as api:
        lists = iter([listing(item("a")), away, away, listing(item("b"))])
        api.answers["GET", PATH] = lambda _: next(lists)
        api.watches[PATH] = [away, away, away]
        await names_after(api, tmp_path, ["b"])


# Breaks if 10,000 objects are kept with what nobody reads of them.
async def test_objects_are_kept_without_managed_fields(tmp_path: Path) -> None:
    managed = item("a")
    managed["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    with fake_api() as api:
        api.answers["GET", PATH] = listing(managed)
        async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client:
            found = LiveList(client, PATH)
            async with found.running():
                assert found.objects == [item("a")]


# Breaks if a list that is kept ends with an error, is asked for without a pause, or forgets what it has seen.
async def test_a_kept_list_survives_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAUSE", "AGAIN"):
        monkeypatch.setattr(live_list, name, 0.01)
    refused = failure(403, "Forbidden", "no")
    seen: list[tuple[bool, int]] = []
    both = asyncio.Event()

    def look() -> None:
        seen.append((found.forbidden, len(found.objects)))
        if len(found.objects) == 2:
            both.set()

    with fake_api() as api:
        lists = iter([refused, listing(item("a")), refused, refused, listing(item("a"), item("b"))])
        api.answers["GET", PATH] = lambda _: next(lists)
        api.watches[PATH] = [refused]
        async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client:
            found = LiveList(client, PATH, changed=look)
            kept = asyncio.create_task(found.keep())
            async with asyncio.timeout(20):
                await both.wait()
            kept.cancel()
            await asyncio.gather(kept, return_exceptions=True)
    assert found.asked.is_set()
    assert list(dict.fromkeys(seen)) == [(True, 0), (False, 1), (True, 1), (False, 2)]
