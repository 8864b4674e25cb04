"""Jobs for end-to-end tests: a pool of nodes of the test's own, a TrainingJob on it, and what can be seen of both."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import psutil
from tests.support.cluster.local_cluster import apply, audit_events, delete, exists, get, items, patch, pod_log
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.agent.config import Capacity, NodeSpec
from holdfast_local.cluster import Cluster
from holdfast_local.demo.bucket import commit_log
from holdfast_local.errors import LocalError
from holdfast_train.commitlog.records import Record

GPU = "nvidia.com/gpu"
POOL_LABEL = "test/pool"
OPERATOR_USER = "system:serviceaccount:holdfast-system:holdfast"

Raw = dict[str, Any]


def pool_nodes(number: int) -> tuple[NodeSpec, ...]:
    """Nodes of one pool: two spot, one dedicated, one CPU. Tests that take nodes away do so in their own pool.

    They are there from `Pool.rent` until `Pool.give_back`: every node costs heartbeats.
    """

    def node(name: str, tier: str, *, gpu: bool) -> NodeSpec:
        labels = {POOL_LABEL: f"p{number}", names.LABEL_TIER: tier}
        capacity = Capacity(accelerators={GPU: 1} if gpu else {})
        return NodeSpec(name=f"p{number}-{name}", labels=labels, capacity=capacity, standby=True)

    return (
        node("spot-1", "spot", gpu=True),
        node("spot-2", "spot", gpu=True),
        node("dedicated-1", "dedicated", gpu=True),
        node("cpu-1", "cpu", gpu=False),
    )


@dataclass(frozen=True)
class Pool:
    """The nodes of one test."""

    cluster: Cluster
    name: str

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes."""
        return [self.node(kind) for kind in ("spot-1", "spot-2", "dedicated-1", "cpu-1")]

    def rent(self) -> Self:
        """Bring its nodes up, and wait until pods can be placed on them."""
        for node in self.nodes:
            self.cluster.restore(node)
        wait_for(lambda: all(_open(get(self.cluster, f"node/{node}")) for node in self.nodes), 30, f"pool {self.name}")
        return self

    def give_back(self) -> None:
        """Take away what is left of its nodes."""
        for node in self.nodes:
            with suppress(LocalError):  # it is gone or going already
                self.cluster.crash(node)
            delete(self.cluster, f"node/{node}")

    def node(self, kind: str) -> str:
        """The name of a node, such as `spot-1`."""
        return f"{self.name}-{kind}"

    def tier(self, kind: str, **more: Any) -> Raw:
        """A tier `spot`, `dedicated` or `cpu` of this pool."""
        words = {"spot": "Spot", "dedicated": "Dedicated", "cpu": "CPU"}
        tier: Raw = {
            "name": kind,
            "kind": words[kind],
            "nodeSelector": {POOL_LABEL: self.name, names.LABEL_TIER: kind},
            "acquireTimeout": "3s",
            **more,
        }
        if kind != "cpu":
            tier["accelerator"] = GPU
        return tier


def _open(node: Raw) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())
    return ready and not node["spec"].get("taints")


@dataclass
class Job:
    """One TrainingJob in a cluster."""

    cluster: Cluster
    namespace: str
    name: str
    manifest: Raw = field(repr=False)

    def get(self) -> Raw:
        """The object as it is."""
        return get(self.cluster, f"trainingjob/{self.name}", self.namespace)

    def status(self) -> Raw:
        """Its status, empty at first."""
        found: Raw = self.get().get("status") or {}
        return found

    def exists(self) -> bool:
        """Whether it is there."""
        return exists(self.cluster, f"trainingjob/{self.name}", self.namespace)

    def wait(self, what: str, true: Callable[[Raw], Any], timeout: float = 60) -> Raw:
        """Wait until the status satisfies `true`, and return it."""

        def holds() -> Raw | None:
            status = self.status()
            assert true(status), brief(status)
            return status

        return wait_for(holds, timeout, f"job {self.name}: {what}") or {}

    def wait_phase(self, *phases: str, timeout: float = 60) -> Raw:
        """Wait until the phase is one of these."""
        return self.wait(" or ".join(phases), lambda s: s.get("phase") in phases, timeout)

    def wait_step(self, step: int, timeout: float = 60) -> Raw:
        """Wait until it runs and has reported this step."""
        return self.wait(
            f"step {step}",
            lambda s: s.get("phase") == "Running" and (s.get("progress") or {}).get("step", 0) >= step,
            timeout,
        )

    def wait_checkpoint(self, step: int = 1, timeout: float = 60) -> Raw:
        """Wait until a checkpoint of this step or later is committed."""
        return self.wait(
            f"a checkpoint at {step}", lambda s: (s.get("checkpoint") or {}).get("step", 0) >= step, timeout
        )

    def pods(self) -> list[Raw]:
        """Its pods, oldest attempt first."""
        found = items(self.cluster, "pod", self.namespace, labelSelector=f"{names.LABEL_JOB}={self.name}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_ATTEMPT]))

    def pod(self, attempt: int) -> Raw | None:
        """The pod of an attempt, or None."""
        wanted = str(attempt)
        return next((pod for pod in self.pods() if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == wanted), None)

    def logs(self, attempt: int) -> str:
        """What the trainer of an attempt printed."""
        return pod_log(self.cluster, f"{self.name}-{attempt}-0", self.namespace)

    def patch(self, spec: Raw) -> None:
        """Merge into the spec."""
        patch(self.cluster, f"trainingjob/{self.name}", {"spec": spec}, self.namespace)

    def annotate(self, annotation: str, value: str) -> None:
        """Set an annotation."""
        changes = {"metadata": {"annotations": {annotation: value}}}
        patch(self.cluster, f"trainingjob/{self.name}", changes, self.namespace)

    def delete(self) -> None:
        """Delete it, without waiting until it is gone."""
        delete(self.cluster, f"trainingjob/{self.name}", self.namespace)

    def writes(self) -> list[Raw]:
        """Every write of the operator on this job and its pods, Events aside, in order, from the audit log."""
        own = [event for event in audit_events(self.cluster, OPERATOR_USER) if _is_write(event)]
        return [event for event in own if self._concerns(event["objectRef"])]

    def delays(self) -> list[timedelta]:
        """How long it decided to wait before each pod that it did not create at once, and that it did wait."""
        found: list[timedelta] = []
        retry_at: datetime | None = None
        for write in self.writes():
            at = datetime.fromisoformat(write["requestReceivedTimestamp"])
            if write["verb"] == "create" and retry_at:
                assert at >= retry_at, "the pod came before its time"
            if write["objectRef"].get("subresource") != "status":
                continue
            current = write["requestObject"]["status"].get("current") or {}
            if text := current.get("retryAt"):
                retry_at = datetime.fromisoformat(text)
                found.append(retry_at - at)
        return found

    def _concerns(self, ref: Raw) -> bool:
        if ref.get("namespace") != self.namespace or ref.get("resource") not in ("trainingjobs", "pods"):
            return False
        name = ref.get("name", "")
        return not name or name == self.name or name.startswith(f"{self.name}-")


def _is_write(event: Raw) -> bool:
    return (
        event["verb"] in ("create", "patch", "update", "delete")
        and event.get("stage") == "ResponseComplete"
        and event.get("responseStatus", {}).get("code", 500) < 300
    )


def exit_code(pod: Raw) -> int | None:
    """The exit code of the trainer; None while it has none. Its kubelet gives the final phase some time after that."""
    found = (one for one in pod["status"].get("containerStatuses") or () if one["name"] == "trainer")
    end = next((one["state"].get("terminated") for one in found), None)
    return None if end is None else int(end["exitCode"])


def has_ended(pod: Raw) -> bool:
    """True if the trainer has ended, or the pod is over without it."""
    return exit_code(pod) is not None or pod["status"]["phase"] in ("Succeeded", "Failed")


def restarts(status: Raw) -> tuple[int, int, int]:
    """Interruptions, those of the infrastructure, and failures: what is not in a status is 0."""
    counts = status.get("restarts") or {}
    return counts.get("interruptions", 0), counts.get("infrastructure", 0), counts.get("failures", 0)


def brief(status: Raw) -> str:
    """A status in a few words, for messages."""
    keys = ("phase", "reason", "attempt", "tier", "progress", "restarts", "decision", "history")
    return json.dumps({key: status.get(key) for key in keys})[:3000]


def stub(*flags: object) -> list[str]:
    """The command of a trainer without torch."""
    return ["python", "-m", "holdfast_train.examples.stub", *(str(flag) for flag in flags)]


def slow_at_first(step_seconds: float, *flags: object) -> list[str]:
    """The same, with steps that take so long in attempt 1; later attempts have nothing to wait for, and are quick."""
    pace = f'[ "$HOLDFAST_ATTEMPT" = 1 ] && pace={step_seconds} || pace=0.005'
    trainer = " ".join(stub("--step-seconds"))
    return ["sh", "-c", f'{pace}; exec {trainer} $pace "$@"', "stub", *(str(flag) for flag in flags)]


def job_manifest(
    cluster: Cluster, namespace: str, name: str, tiers: Sequence[Raw], command: Sequence[str], **spec: Any
) -> Raw:
    """A TrainingJob on S3; `spec` is merged over its spec one level deep."""
    s3 = {
        "bucket": cluster.s3.bucket,
        "prefix": f"{namespace}/{name}",
        "endpoint": cluster.s3.endpoint,
        "credentialsSecret": "s3",
    }
    base: Raw = {
        "trainer": {
            "image": "holdfast.dev/trainer:local",
            "command": list(command),
            "resources": {"cpu": "500m", "memory": "4Gi"},
        },
        "capacity": {"tiers": list(tiers)},
        "checkpoint": {"storage": {"s3": s3}, "every": "20 steps", "gracePeriod": "10s"},
        "goal": {"steps": 200},
    }
    for key, value in spec.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) and key in base else value
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": names.API_VERSION, "kind": names.JOB_KIND, "metadata": metadata, "spec": base}


def s3_secret(cluster: Cluster, **changed: str) -> Raw:
    """The Secret with the storage's keys."""
    data = {"AWS_ACCESS_KEY_ID": cluster.s3.access_key, "AWS_SECRET_ACCESS_KEY": cluster.s3.secret_key, **changed}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": data}


def submit(
    cluster: Cluster, namespace: str, tiers: Sequence[Raw], command: Sequence[str], name: str = "job", **spec: Any
) -> Job:
    """Apply the Secret and a job, and return it."""
    manifest = job_manifest(cluster, namespace, name, tiers, command, **spec)
    apply(cluster, s3_secret(cluster), namespace=namespace)
    apply(cluster, manifest)
    return Job(cluster, namespace, name, manifest)


def storage_log(cluster: Cluster, prefix: str) -> list[Record]:
    """The commit log under a prefix, oldest record first, as the demo reads it."""
    return commit_log(cluster.s3, prefix)


def kinds(records: Sequence[Record]) -> list[tuple[str, int]]:
    """Kind and attempt of log records."""
    return [(record.kind, record.identity.attempt) for record in records]


def processes_of(pod_uid: str) -> list[psutil.Process]:
    """The processes of a pod's trainer: those that carry its UID in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOLDFAST_POD_UID") == pod_uid:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
