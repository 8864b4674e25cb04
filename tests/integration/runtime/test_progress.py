"""The progress endpoint with real tokens, real TLS and a real pod."""

import http.client
import json
import ssl
from typing import Any

import pytest
from tests.support.cluster.local_cluster import get
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.cluster


class Pod:
    """Speaks as a pod does."""

    def __init__(self, operator: OperatorProcess, jobs: Any, name: str = "a-1-0") -> None:
        self.operator = operator
        self.jobs = jobs
        self.name = name
        self.uid = get(jobs.cluster, f"pod/{name}", jobs.namespace)["metadata"]["uid"]
        trusted = get(jobs.cluster, "configmap/holdfast-ca", jobs.namespace)["data"]["ca.crt"]
        self.context = ssl.create_default_context(cadata=trusted)

    def token(self, audience: str = "holdfast") -> str:
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={self.name}", f"--bound-object-uid={self.uid}")
        made: str = self.jobs.kubectl("create", "token", "default", f"--audience={audience}", *bound)
        return made.strip()

    def call(self, method: str, path: str, token: str | None, body: bytes | None = None) -> tuple[int, Any]:
        port = self.operator.progress_port
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=self.context, timeout=30)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def post(self, token: str | None, job: str = "a", **fields: Any) -> tuple[int, Any]:
        body = {"sender": "Library", "attempt": 1, "podUID": self.uid, "state": "training", **fields}
        path = f"/v1/namespaces/{self.jobs.namespace}/jobs/{job}/progress"
        return self.call("POST", path, token, json.dumps(body).encode())


@pytest.fixture
def pod(operator: OperatorProcess, jobs: Any) -> Pod:
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    return Pod(operator, jobs)


def test_a_report_reaches_status_and_metrics(pod: Pod, jobs: Any) -> None:
    """Breaks if the token review, the CA's way to the pod, or the way from a report to a decision is broken."""
    reviews = pod.operator.metric("holdfast_api_requests_total", resource="tokenreviews")
    assert pod.post(pod.token(), step=7, figures={"loss": "2.5"}) == (
        200,
        {
            "orders": [],
            "reportEverySeconds": 15.0,
            "version": 1,
        },
    )
    wait_for(lambda: jobs.status().get("progress", {}).get("step") == 7, 10, "the step in status")
    assert pod.operator.metric("holdfast_job_training_loss", job_name="a", job_namespace=jobs.namespace) == 2.5
    token = pod.token()
    for _ in range(5):
        assert pod.post(token, step=8)[0] == 200
    assert pod.operator.metric("holdfast_api_requests_total", resource="tokenreviews") == reviews + 2


def test_only_a_pod_of_the_job_may_report(pod: Pod, jobs: Any) -> None:
    """Breaks if one user's pod can say that another user's job is done."""
    token = pod.token()
    jobs.create("b")
    wait_for(lambda: jobs.phase("b") == "Running", 20, "the other job to run")
    assert pod.post(None)[0] == 401
    assert pod.post("abc")[0] == 401
    assert pod.post(pod.token(audience="https://kubernetes.default.svc"))[0] == 401
    unbound = jobs.kubectl("create", "token", "default", "--audience=holdfast").strip()
    assert pod.post(unbound)[0] == 401
    assert pod.post(token, job="b")[0] == 403
    assert pod.post(token, podUID=Pod(pod.operator, jobs, "b-1-0").uid)[0] == 403
    assert pod.post(token, attempt=2)[0] == 403
    assert pod.post(token, mood="x" * 70_000)[0] == 413
    assert pod.post(token, step="many")[0] == 400
    assert pod.post(token)[0] == 200


def test_a_pod_of_an_ended_attempt_is_turned_away(pod: Pod, jobs: Any) -> None:
    """Breaks if a zombie's reports count for its successor."""
    token = pod.token()
    at = "2026-11-21T12:00:00Z"
    record = {"number": 1, "tier": "cpu", "kind": "Interruption", "reason": "NodeLost", "raisedAt": at, "endedAt": at}
    patch = json.dumps({"status": {"history": [record], "current": None}})
    jobs.kubectl("patch", "tj/a", "--subresource=status", "--type=merge", "-p", patch)
    wait_for(lambda: pod.post(token)[0] == 403, 10, "the report to be refused")


def test_an_order_comes_through_the_long_poll(pod: Pod, jobs: Any) -> None:
    """Breaks if an order waits for the next report."""
    import threading

    token, answers = pod.token(), []
    path = f"/v1/namespaces/{jobs.namespace}/jobs/a/orders?podUID={pod.uid}&attempt=1&after=0&wait=25"
    poll = threading.Thread(target=lambda: answers.append(pod.call("GET", path, token)))
    poll.start()
    wait_for(lambda: pod.operator.metric("holdfast_order_waits") == 1, 10, "the poll to wait")
    jobs.kubectl("annotate", "tj/a", "holdfast.dev/checkpoint-requested=41")
    poll.join(10)
    ((status, body),) = answers
    assert (status, body["orders"][0]["id"], body["orders"][0]["type"]) == (200, 41, "checkpoint")
    assert pod.post(token, acknowledged=41)[1]["orders"] == []
