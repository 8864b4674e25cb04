import pytest
from tests.support.operator.fake_api_server import raw_job, raw_pod

from holdfast.runtime.endpoint.pod_membership import PodMembership
from holdfast.runtime.informer.cache import Cache
from holdfast.serve.progress_endpoint import Standing

TIER = {"name": "cpu", "kind": "CPU"}
AT = "2026-11-21T11:00:00Z"


def members(*, synced: bool = True) -> tuple[Cache, PodMembership]:
    cache = Cache()
    current = {"number": 2, "state": "Running", "tier": TIER, "raisedAt": AT}
    record = {"number": 1, "tier": "cpu", "kind": "Interruption", "reason": "x", "raisedAt": AT, "endedAt": AT}
    cache.put_job(raw_job(attempt=4, current=current, history=[record]))
    cache.put_pod(raw_pod("a-1-0", "old", 11, attempt=1))
    cache.put_pod(raw_pod("a-2-0", "now", 12, attempt=2))
    cache.put_pod(raw_pod("a-7-0", "alien", 13, attempt=2, job_uid="u9"))
    cache.put_pod(raw_pod("b-1-0", "b", 14, job="b", job_uid="u2"))
    cache.put_pod(raw_pod("a-3-0", "nobodys", 15, attempt=3))
    return cache, PodMembership(cache, lambda: synced)


@pytest.mark.parametrize(
    ("pod", "attempt", "expected"),
    [
        ("now", 2, Standing.MEMBER),
        ("now", None, Standing.MEMBER),
        ("now", 3, Standing.STRANGER),
        ("old", 1, Standing.STRANGER),  # its attempt is over
        ("nobodys", 3, Standing.STRANGER),  # neither over nor in anybody's hands
        ("alien", 2, Standing.STRANGER),  # a job of the same name, deleted before
        ("b", 1, Standing.STRANGER),
        ("nobody", 1, Standing.STRANGER),
    ],
)
def test_only_pods_of_known_attempts_may_report(pod: str, attempt: int | None, expected: Standing) -> None:
    assert members()[1]("ns", "a", pod, attempt) is expected


def test_the_first_pod_may_report_before_anything_is_in_status() -> None:
    cache = Cache()
    cache.put_job(raw_job())
    cache.put_pod(raw_pod("a-1-0", "first", 11))
    cache.put_pod(raw_pod("a-2-0", "second", 12, attempt=2))
    ask = PodMembership(cache, lambda: True)
    assert ask("ns", "a", "first", 1) is Standing.MEMBER
    assert ask("ns", "a", "second", 2) is Standing.STRANGER


def test_the_launchers_of_a_job_that_is_over_may_ask_whether_they_end() -> None:
    """Breaks if they wait until they are deleted; a report of a step is refused all the same."""
    cache = Cache()
    cache.put_job(raw_job(attempt=2, phase="Failed"))
    several = raw_pod("a-2-0", "several", 11, attempt=2)
    several["spec"]["containers"] = [{"name": "trainer", "env": [{"name": "HOLDFAST_NODES", "value": "2"}]}]
    cache.put_pod(several)
    cache.put_pod(raw_pod("a-1-0", "one", 12, attempt=1))
    ask = PodMembership(cache, lambda: True)
    assert ask("ns", "a", "several", None) is Standing.MEMBER
    assert ask("ns", "a", "several", 2) is Standing.STRANGER
    assert ask("ns", "a", "one", None) is Standing.STRANGER


def test_before_the_first_sync_an_unknown_pod_is_not_refused_for_good() -> None:
    assert members(synced=False)[1]("ns", "a", "nobody", 1) is Standing.UNKNOWN
    assert members()[1]("ns", "other", "now", 2) is Standing.STRANGER
