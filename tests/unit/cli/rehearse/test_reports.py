"""What a program reports during a rehearsal."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast_cli.rehearse.reports import Reported, Reports
from holdfast_protocol.report import MAX_BODY


@pytest.fixture
def reports() -> Iterator[Reports]:
    with Reports() as found:
        yield found


def call(reports: Reports, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(reports.url.partition("//")[2], timeout=10)
    connection.request(method, path, body=body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def report(attempt: int = 1, **more: Any) -> bytes:
    body = {"sender": "Relay", "attempt": attempt, "podUID": "pod", "state": "training", "version": 1}
    return json.dumps({**body, **more}).encode()


PROGRESS = "/v1/namespaces/rehearsal/jobs/job/progress"


# Breaks if the first step of a start is lost, or if a step of another start is taken for it.
def test_steps_of_each_start(reports: Reports) -> None:
    for attempt, step in ((1, 3), (1, 7), (2, 6)):
        status, body = call(reports, "POST", PROGRESS, report(attempt, step=step, steps=60))
        assert (status, body["orders"]) == (200, [])
    first, second = reports.of(1), reports.of(2)
    assert (first.first, first.last, first.goal) == (3, 7, 60)
    assert (second.first, second.last) == (6, 6)
    assert first.first_at is not None
    reports.begin()
    assert reports.of(1) == Reported()


# Breaks if the step that a program resumed from counts as one that it has trained.
def test_a_program_that_starts(reports: Reports) -> None:
    call(reports, "POST", PROGRESS, report(step=20, state="starting"))
    assert reports.of(1).last is None
    first = {"step": 21, "secondsAgo": "1"}
    call(reports, "POST", PROGRESS, report(step=24, firstStep=first))
    assert (reports.of(1).first, reports.of(1).last) == (21, 24)


# Breaks if a program can stop the rehearsal by what it sends.
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", PROGRESS, b"{", 400),
        ("POST", PROGRESS, b"[]", 400),
        ("POST", PROGRESS, report(step=-1), 400),
        ("POST", PROGRESS, b" " * (MAX_BODY + 1), 413),
        ("GET", "/v1/namespaces/rehearsal/jobs/job/orders", None, 400),
        ("GET", "/v1/namespaces/rehearsal/jobs/job/orders?wait=0.01", None, 200),
        ("GET", "/metrics", None, 404),
    ],
)
def test_bad_requests(reports: Reports, method: str, path: str, body: bytes | None, status: int) -> None:
    assert call(reports, method, path, body)[0] == status
    assert call(reports, "POST", PROGRESS, report(step=5))[0] == 200
