import json
from typing import Any

import pytest
from aiohttp import ClientSession

from holdfast.runtime.health import MAX_CONTACT_AGE, MAX_FRAME_AGE, MAX_QUEUE_STALL, Health, HealthServer


def health(**over: Any) -> Health:
    values: dict[str, Any] = {
        "leading": lambda: True,
        "lease_age": lambda: 1.0,
        "contact_age": lambda: 1.0,
        "prepared": lambda: True,
        "frames": lambda: {"pods": 2.0},
        "resync_age": lambda: 5.0,
        "serving": lambda: True,
    }
    return Health(**{**values, **over})


def test_a_leader_that_serves_is_healthy_and_ready() -> None:
    well, report = health().report()
    assert (well, report["ready"], report["problems"]) == (True, True, [])
    assert report["watchFrameAgeSeconds"] == {"pods": 2.0}


def test_a_follower_that_could_lead_is_healthy_and_ready() -> None:
    """Breaks if `helm install --wait` waits for a second leader, or a rollout replaces the good operators."""
    follower = {"leading": lambda: False, "serving": lambda: False, "lease_age": lambda: None}
    well, report = health(**follower, resync_age=lambda: None).report()
    assert (well, report["ready"], report["leading"], report["leaseAgeSeconds"]) == (True, True, False, None)


@pytest.mark.parametrize(
    "over",
    [
        {"prepared": lambda: False},
        {"watch_gaps": lambda: {"pods": 10.1}},
        {"contact_age": lambda: None},
        {"contact_age": lambda: MAX_CONTACT_AGE + 1},
    ],
)
def test_an_operator_that_cannot_lead_is_healthy_and_not_ready(over: dict[str, Any]) -> None:
    well, report = health(**over).report()
    assert (well, report["ready"]) == (True, False)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"frames": lambda: {"pods": MAX_FRAME_AGE + 1}}, "the watch of pods received nothing for 181s"),
        ({"queue_stalled": lambda: MAX_QUEUE_STALL + 1}, "jobs wait, and no worker has taken one for 121s"),
        ({"resync_age": lambda: 99_999.0}, "the last resync was 99999s ago"),
    ],
)
def test_each_problem_is_named_with_what_is_allowed(over: dict[str, Any], words: str) -> None:
    well, report = health(**over).report()
    assert not well
    assert report["problems"][0].startswith(f"{words} (at most ")


async def test_the_probes_over_http() -> None:
    server = HealthServer(health(prepared=lambda: False, queue_stalled=lambda: 999.0))
    port = await server.start("127.0.0.1", 0)
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as http:
            async with http.get("/healthz") as answer:
                assert (answer.status, len(json.loads(await answer.text())["problems"])) == (503, 1)
            async with http.get("/readyz") as answer:
                assert answer.status == 503
            async with http.get("/metrics") as answer:
                assert answer.status == 404
    finally:
        await server.stop()
