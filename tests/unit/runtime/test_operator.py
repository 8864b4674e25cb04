import asyncio
import re
from pathlib import Path
from typing import Any

from tests.support.operator.every_metric import AT, Told, every_metric, job_with_everything, operator
from tests.support.operator.fake_api_server import Clock, FakeClient, raw_pod
from tests.support.operator.whole_lists import replace_all
from tests.support.waiting import wait_for

from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.operator import Operator
from holdfast.runtime.settings import Settings


def test_pods_are_answered_during_a_short_outage_and_not_during_a_long_one() -> None:
    clock, client = Clock(), FakeClient()
    settings = Settings(namespace="ns")
    whole: Any = client
    operator = Operator(settings, whole)
    operator._gate = LeadershipGate(clock)
    operator._gate.keep_open(clock())
    clock.tick(settings.lease_duration - 0.1)
    assert operator._may_answer()
    clock.tick(0.2)  # another process may lead by now: pods have to connect again
    assert not operator._may_answer()


# Breaks if a metric is added, renamed or dropped and its page is not changed.
def test_the_page_of_metrics_lists_exactly_what_there_is() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md").read_text()
    told: dict[str, Told] = {}
    for name, kind, labels in re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \| ?(.*?)\|", page, re.MULTILINE):
        of_job = {"job_namespace", "job_name"} if name.startswith("holdfast_job_") else set()
        told[name] = Told(kind, of_job | set(re.findall(r"`(\w+)`", labels)))
    assert told == every_metric()


# Breaks if an interruption is not counted, is counted at every later change of the status, or by the next operator
# again.
def test_what_a_job_lived_through_is_counted_once() -> None:
    lost = {
        "number": 1,
        "tier": "v100",
        "kind": "Interruption",
        "reason": "NodeGone",
        "scheduledAt": AT,
        "raisedAt": AT,
    }
    after = job_with_everything(version=2)
    after["status"]["history"] = [{**lost, "endedAt": AT, "stepsLost": 0, "recovery": {"restore": "7s"}}]
    after["status"]["ledger"] |= {
        "attempts": 1,
        "byTier": [{"tier": "v100", "kind": "Dedicated", "attempts": 1}],
    }
    first = operator()
    for version in (2, 3):
        first._cache.put_job({**after, "metadata": {**after["metadata"], "resourceVersion": str(version)}})
    text = asyncio.run(first.exposition.page()).decode()
    assert 'holdfast_moves_total{reason="NodeGone",tier_kind="Dedicated"} 1.0' in text
    assert 'holdfast_recovery_seconds_sum{phase="restore"} 7.0' in text
    client: Any = FakeClient()
    second = Operator(Settings(namespace="ns"), client)
    replace_all(second._cache, "jobs", [after], 3)
    text = asyncio.run(second.exposition.page()).decode()
    assert 'holdfast_moves_total{reason="NodeGone",tier_kind="Dedicated"} 0.0' in text


def test_a_pod_may_be_known_until_the_cluster_was_read() -> None:
    """Breaks if a new leader refuses the tokens of pods that it has not read yet."""
    made = operator()
    made._cache.put_pod(raw_pod(uid="p1"))
    assert [made._may_know(uid) for uid in ("p1", "p2")] == [True, True]
    made._resync.last = 1.0
    assert [made._may_know(uid) for uid in ("p1", "p2")] == [True, False]


async def test_an_operator_that_is_stopped_before_it_leads_ends_well_and_holds_no_lease() -> None:
    client = FakeClient()
    lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/holdfast"
    client.put(lease, {"metadata": {}, "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}})
    client.on("GET", "nodes|pods|trainingjobs|capacityprofiles", *[{"items": []}] * 4)
    whole: Any = client
    binds = dict.fromkeys(("health_bind", "metrics_bind", "progress_bind"), "127.0.0.1:0")
    made = Operator(Settings(namespace="ns", **binds), whole)
    running = asyncio.create_task(made.run())
    await asyncio.to_thread(wait_for, lambda: made._health.ready, 20, "the operator to be ready")
    made.stop()
    assert await running == 0
    assert client.objects[lease]["spec"]["holderIdentity"] == "another"
    assert not made._health.serving()
