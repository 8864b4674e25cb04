"""Pages, streams and actions over HTTP, on an API server that changes, refuses and goes away."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.http.living_api_server import LivingApi
from tests.support.manifests.fleet import EVENTS, JOBS, PROFILES

from holdfast_cli.cluster import operators
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.storage.address import Found
from holdfast_cli.ui import app, readings
from holdfast_cli.ui.security import HEADERS

Started = Callable[[], AbstractAsyncContextManager[Any]]
JOB = "/jobs/demo/vit-faces"


async def until(found: Callable[[], Any], what: str) -> None:
    """Wait for a condition."""
    try:
        async with asyncio.timeout(20):
            while not found():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"waited for {what}; last seen: {found()!r}")


async def read(answer: Any, text: str) -> str:
    """The stream up to the event that has the text."""
    seen = ""
    async with asyncio.timeout(20):
        while text not in seen:
            part = await answer.content.readany()
            assert part, f"the stream ended: {seen[-500:]}"
            seen += part.decode()
    return seen


async def until_read(ui: Any) -> None:
    await until(lambda: ui.cluster.jobs().rows, "the jobs")


async def test_pages(started: Started) -> None:
    async with started() as ui:
        await until_read(ui)
        for path, text in (
            ("/jobs", "vit-faces"),
            ("/tiers", "spot-a100-17"),
            (JOB, "ValueError: bad batch"),
            ("/", "Jobs"),
        ):
            status, html = await ui.get(path)
            assert status == 200
            assert text in html
        for path in ("/page.css", "/page.js", "/uplot.js", "/live.js", "/favicon.ico"):
            assert (await ui.get(path))[0] == 200


async def test_pages_say_that_no_operator_is_at_work(api: LivingApi, started: Started) -> None:
    """Breaks if pages show jobs as Running for minutes that nobody looks after."""
    lease = {"metadata": {"name": "holdfast", "uid": "u-lease"}, "spec": {"renewTime": "2026-11-21T09:00:00.123456Z"}}
    api.put(operators.PATH, lease)
    async with started() as ui:
        _, html = await ui.get("/jobs")
        assert "No operator has renewed its Lease since 2026-11-21T09:00:00Z" in html


@pytest.mark.parametrize(
    "path", ["/jobs/demo/none", "/jobs/Demo/A", "/jobs/demo/..%2f..%2fx", "/events?page=/nothing", "/events", "/x"]
)
async def test_what_is_not_there(started: Started, path: str) -> None:
    """Breaks if a path of the API server can be made from an address."""
    async with started() as ui:
        assert (await ui.get(path))[0] == 404


async def test_a_change_is_sent_and_a_tab_that_is_closed_ends_its_stream(api: LivingApi, started: Started) -> None:
    async with started() as ui:
        await until_read(ui)
        async with ui.events("/jobs") as answer:
            await read(answer, "event: change")
            job = api.get(JOBS, "vit-faces")
            job["status"]["progress"]["step"] = 777
            await asyncio.to_thread(api.put, JOBS, job)
            sent = await read(answer, "777")
            change = json.loads(sent.partition("data: ")[2].partition("\n")[0])
            assert "vit-faces" in change["rows"]["changed"]
            assert "order" not in change["rows"]
        # Events of a job are watched only while its page is open.
        async with ui.events(JOB) as answer:
            await read(answer, "event: change")
            await until(lambda: api.watching(EVENTS) == 1, "a watch of Events")
        await until(lambda: api.watching(EVENTS) == 0, "the end of the watch")


async def test_tabs_of_a_job_share_one_reading_of_its_storage(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if each tab reads the storage for itself, all rows of it, or if a tab that comes back reads it again."""
    asked: list[dict[str, Any]] = []

    async def place(*_: Any, **__: Any) -> Found:
        return Found("s3://runs/x")

    def read_place(inputs: JobInputs, _: Found, **bounds: Any) -> JobInputs:
        asked.append(bounds)
        return replace(inputs, notes=["this was read"])

    monkeypatch.setattr(readings, "storage_of", place)
    monkeypatch.setattr(readings, "read_place", read_place)
    async with started() as ui:
        await until_read(ui)
        async with ui.events(JOB) as first:
            await read(first, "this was read")
            async with ui.events(JOB) as second:
                await read(second, "this was read")
        async with ui.events(JOB) as again:
            await read(again, "this was read")
    assert asked == [{"most_rows": 10_000, "at_most": 20.0}]


async def test_an_event_of_an_open_job_is_sent(api: LivingApi, started: Started) -> None:
    async with started() as ui:
        await until_read(ui)
        async with ui.events(JOB) as answer:
            await read(answer, "event: change")
            about = {"uid": "uid-vit-faces", "name": "vit-faces", "kind": "TrainingJob"}
            event = {
                "metadata": {"name": "e", "uid": "e"},
                "involvedObject": about,
                "reason": "Moved",
                "message": "to <b>",
            }
            await asyncio.to_thread(api.put, EVENTS, event)
            assert "to &lt;b&gt;" in await read(answer, "Moved")


async def test_the_pages_outlive_an_api_server_that_is_away_and_a_watch_that_expires(
    api: LivingApi, started: Started
) -> None:
    """Breaks if the pages stop changing after an outage, or do not say that they show old figures."""
    async with started() as ui:
        await until_read(ui)
        async with ui.events("/jobs") as answer:
            await read(answer, "event: change")
            await asyncio.to_thread(api.stop)
            await read(answer, "The pages show what was seen last")
            assert "vit-faces" in (await ui.get("/jobs"))[1]
            await asyncio.to_thread(api.start)
            await until(lambda: ui.cluster.trouble == "", f"the end of the trouble {ui.cluster.trouble}")
            await until(lambda: api.watching(JOBS) == 1, "a new watch")
            await asyncio.to_thread(api.expire, JOBS)
            await until(lambda: api.watching(JOBS) == 1, "a new watch")
            await asyncio.to_thread(api.delete, JOBS, "vit-faces")
            await read(answer, "no training jobs in namespace demo")


async def test_what_the_user_may_not_see_is_said_and_the_rest_works(api: LivingApi, started: Started) -> None:
    for path in (PROFILES, EVENTS):
        api.refused["GET", path] = (403, "Forbidden", "no")
    async with started() as ui:
        await until_read(ui)
        assert "vit-faces" in (await ui.get("/jobs"))[1]
        assert "may not list CapacityProfiles (403)" in (await ui.get("/tiers"))[1]
        assert "may not list Events in this namespace (403)" in (await ui.get(JOB))[1]
        assert ui.cluster.trouble == ""
        # Rights that come are used without a restart.
        api.refused.clear()
        await until(lambda: ui.cluster.tiers().profiles, "the profiles")


async def test_without_the_right_to_list_jobs_nothing_starts(api: LivingApi, started: Started) -> None:
    api.refused["GET", JOBS] = (403, "Forbidden", "trainingjobs is forbidden")
    with pytest.raises(Exception, match="not allowed: trainingjobs is forbidden"):
        async with started():
            pytest.fail("it started")


async def test_a_job_that_cannot_be_read_is_named(api: LivingApi, started: Started) -> None:
    job = api.get(JOBS, "vit-faces")
    job["spec"], job["metadata"]["name"], job["metadata"]["uid"] = {}, "broken", "uid-broken"
    api.put(JOBS, job)
    async with started() as ui:
        await until(lambda: ui.cluster.jobs().unreadable, "the job")
        assert "demo/broken" in (await ui.get("/jobs"))[1]
        assert (await ui.get("/jobs/demo/broken"))[0] == 422
        status, text = await ui.get("/events?page=/jobs/demo/broken")
        assert status == 422
        assert "spec" in text


async def test_streams_are_bounded(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "STREAMS", 1)
    async with started() as ui, ui.events("/tiers") as answer:
        await read(answer, "event: hello")
        assert (await ui.get("/events?page=/tiers"))[0] == 503


@pytest.mark.parametrize(
    ("action", "given", "said", "changed"),
    [("checkpoint", {}, "asked to save", "holdfast.dev/checkpoint-requested"),
     ("move", {"tier": "cpu"}, "asked to move", "holdfast.dev/move-requested"),
     ("suspend", {}, "asked to suspend", None)],
)  # fmt: skip
async def test_actions(  # noqa: PLR0917 - pytest passes them by name
    api: LivingApi, started: Started, action: str, given: dict[str, str], said: str, changed: str | None
) -> None:
    async with started() as ui:
        status, text = await ui.post(f"{JOB}/{action}", **given)
        assert (status, said in text) == (200, True), text
        job = api.get(JOBS, "vit-faces")
        if changed:
            assert job["metadata"]["annotations"][changed].split()[1:] == list(given.values())
        else:
            assert job["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("action", "given", "status", "said"),
    [("resume", {}, 409, "is not suspended"), ("move", {"tier": "moon"}, 409, "no tier 'moon'"),
     ("move", {"node": "n1"}, 409, "has one node"), ("delete", {}, 404, ""),
     ("checkpoint", {"x": "y" * 9000}, 413, "")],
)  # fmt: skip
async def test_a_wrong_action_is_refused_in_words(
    started: Started, action: str, given: dict[str, str], status: int, said: str
) -> None:
    async with started() as ui:
        found, text = await ui.post(f"{JOB}/{action}", **given)
        assert found == status
        assert said in text


async def test_a_refusal_of_the_api_server_is_said(api: LivingApi, started: Started) -> None:
    api.refused["PATCH", JOBS] = (403, "Forbidden", 'User "me" cannot patch trainingjobs')
    async with started() as ui:
        status, text = await ui.post(f"{JOB}/checkpoint")
        assert status == 403
        assert 'User "me" cannot patch trainingjobs' in text
        assert "holdfast-edit" in text
        assert (await ui.post("/jobs/other/vit-faces/checkpoint"))[0] == 404
        assert (await ui.post("/jobs/demo/none/checkpoint"))[0] == 404
        api.stop()
        assert (await ui.post(f"{JOB}/checkpoint"))[0] == 502
        api.start()


async def test_an_error_of_the_program_ends_the_pages(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the pages show old figures for ever, in silence, after a fault in the code that reads them."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("holdfast_cli.ui.cluster._digested", broken)
    with pytest.raises(ZeroDivisionError):
        async with started(), asyncio.timeout(20):
            await asyncio.Event().wait()


async def test_a_job_that_breaks_a_page_does_not_end_the_others(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if what one tenant puts into a storage or a status ends the pages of everybody."""

    def broken(*_: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(readings, "all_nodes", broken)
    async with started() as ui:
        await until_read(ui)
        async with readings.Readings(ui.cluster).of("demo", "vit-faces") as reading:
            await until(lambda: "OverflowError: too large" in str(reading.stored.notes), "the note")
        assert (await ui.get("/jobs"))[0] == 200
    monkeypatch.setattr("holdfast_cli.ui.cluster.learned", broken)
    async with started() as ui:
        await until(lambda: ui.cluster.jobs().unreadable, "a job that cannot be read")
        assert "OverflowError: too large" in (await ui.get("/jobs"))[1]


@pytest.mark.parametrize("page", ["//[", "/jobs/%00/a", "/jobs/a"])
async def test_a_stream_of_no_page_is_not_found(started: Started, page: str) -> None:
    """Breaks if an address that cannot be parsed is an error of the server."""
    async with started() as ui, ui.events(page) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("head", "status"),
    [("GET /jobs HTTP/1.1\r\nHost: {host}\r\nExpect: <x-bytes>\r\n", 417), ("G<x-bytes>T /jobs HTTP/1.1\r\n", 400)],
)
async def test_answers_to_what_is_not_http_are_fixed_and_have_the_headers(
    started: Started, head: str, status: int
) -> None:
    """Breaks if the library's own answers lack a header, or show bytes of the request."""
    async with started() as ui:
        reader, writer = await asyncio.open_connection("127.0.0.1", ui.guard.port)
        writer.write(head.format(host=f"127.0.0.1:{ui.guard.port}").encode() + b"Connection: close\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
    assert answer.split()[1] == str(status), answer
    assert "x-bytes" not in answer
    assert all(f"{name}: {value}" in answer for name, value in HEADERS.items())
