"""Jobs to measure with: TrainingJobs of ours, and batch/v1 Jobs beside them."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from tests.bench.api import Api, ApiFailureError, spread
from tests.bench.audit import JOB_CONTROLLER, OPERATOR, AuditLog, Write, costs, is_pod_post
from tests.bench.kwok import GPU, GROUP
from tests.bench.peers import jobset
from tests.bench.waiting import until

from holdfast.api import names

CREATORS = 8
TIMED_OUT = 504  # HTTP status
IMAGE = "registry.example/team/train:1.0"
COMMAND = ["python3", "train.py", "--epochs", "90"]
JOB_LABEL = "batch.kubernetes.io/job-name"
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
ENV = [{"name": f"SETTING_{number}", "value": str(number)} for number in range(4)]


def training_job(name: str, group: str, nodes: int = 1) -> dict[str, Any]:
    """A TrainingJob whose pods go to nodes of the group, each to a node of its own."""
    tier = {
        "name": "spot",
        "kind": "Spot",
        "accelerator": GPU,
        "nodeSelector": {GROUP: group},
        "acquireTimeout": "1h",
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.JOB_KIND,
        "metadata": {"name": name},
        "spec": {
            "trainer": {
                "image": IMAGE,
                "command": COMMAND,
                "env": ENV,
                "resources": {"cpu": "100m", "memory": "64Mi"},
                **({"nodes": nodes} if nodes > 1 else {}),
            },
            "capacity": {"tiers": [tier]},
            "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": f"bench/{group}/{name}"}}},
            "goal": {"steps": 100_000},
        },
    }


def batch_job(name: str, group: str, nodes: int = 1) -> dict[str, Any]:
    """The same as a batch/v1 Job that ignores disruptions, as its documentation advises; indexed if it has several."""
    resources = {"cpu": "100m", "memory": "64Mi", GPU: "1"}
    container = {
        "name": "trainer",
        "image": IMAGE,
        "command": COMMAND,
        "env": ENV,
        "resources": {"requests": resources, "limits": resources},
    }
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    pod = {"restartPolicy": "Never", "nodeSelector": {GROUP: group}, "containers": [container]}
    spec: dict[str, Any] = {"podFailurePolicy": {"rules": [disrupted]}, "template": {"spec": pod}}
    if nodes > 1:
        own = {"labelSelector": {"matchLabels": {JOB_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
        spec |= {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def job_set(name: str, group: str, nodes: int = 1) -> dict[str, Any]:
    """The same as a JobSet of one such Job, with every default that its webhook fills in."""
    job = batch_job(name, group, nodes)["spec"]
    pod = job["template"]["spec"]
    own = {"labelSelector": {"matchLabels": {JOBSET_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    job |= {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [{"name": "all", "replicas": 1, "template": {"spec": job}}],
        },
    }


class Kind:
    """One way to run a training: where its objects live, who makes their pods, and how a pod names its job.

    `user` makes the pods; `others` write for the job too.
    """

    def __init__(
        self,
        title: str,
        path: str,
        user: str,
        manifest: Callable[..., dict[str, Any]],
        label: str,
        *,
        others: tuple[str, ...] = (),
    ) -> None:
        self.title = title
        self.path = path
        self.user = user
        self.manifest = manifest
        self.label = label
        self.others = others

    def costs(self, audit: AuditLog) -> Counter[str]:
        """The writes for jobs of this kind since the audit log was started, besides Events and Leases."""
        return costs(write for user in (self.user, *self.others) for write in audit.by(user))

    def collection(self, namespace: str) -> str:
        """The path of all objects in a namespace."""
        return self.path.format(namespace=namespace)

    def job_of(self, post: Write) -> str:
        """The job that a pod was made for."""
        return str(post.body["metadata"]["labels"][self.label])

    def replacements(self, audit: AuditLog, namespace: str) -> list[Write]:
        """Every pod that was made in the namespace."""
        return audit.find(lambda w: is_pod_post(w) and w.user == self.user and w.namespace == namespace)


HOLDFAST = Kind(
    "Holdfast",
    f"/apis/{names.API_VERSION}/namespaces/{{namespace}}/{names.JOB_PLURAL}",
    OPERATOR,
    training_job,
    names.LABEL_JOB,
)
JOB = Kind("Job", "/apis/batch/v1/namespaces/{namespace}/jobs", JOB_CONTROLLER, batch_job, JOB_LABEL)


JOBSET = Kind(
    "JobSet",
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets",
    JOB_CONTROLLER,
    job_set,
    JOBSET_LABEL,
    others=(jobset.USER,),
)


def on_nodes(kind: Kind, nodes: int) -> Kind:
    """The same kind of job, on several nodes."""
    return Kind(kind.title, kind.path, kind.user, partial(kind.manifest, nodes=nodes), kind.label, others=kind.others)


@asynccontextmanager
async def namespace(api: Api, prefix: str, *more: Kind, keep: bool = False) -> AsyncIterator[str]:
    """A namespace that is ready for pods, and is emptied and deleted at the end, or kept as long as its cluster."""
    name = f"bench-{prefix}-{uuid.uuid4().hex[:6]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await api.request("POST", "/api/v1/namespaces", body)
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    await until(lambda: api.present(accounts), 30, f"the service account of {name}")
    try:
        yield name
    finally:
        if not keep:
            await empty(api, name, *more)
            await api.request("DELETE", f"/api/v1/namespaces/{name}")


async def empty(api: Api, name: str, *more: Kind) -> None:
    """Delete every job and pod of a namespace, and wait until they are gone. `more`: kinds that may not be there."""
    for kind in (*more, HOLDFAST, JOB):
        await _delete_all(api, f"{kind.collection(name)}?propagationPolicy=Background")
    pods = f"/api/v1/namespaces/{name}/pods"
    await asyncio.sleep(0.5)
    await _delete_all(api, f"{pods}?gracePeriodSeconds=0")

    async def gone() -> bool:
        return not await api.present(pods) and not await api.present(HOLDFAST.collection(name))

    await until(gone, 180, f"the pods of {name} to be gone", every=0.5)


async def _delete_all(api: Api, path: str) -> None:
    """Delete a collection. On a busy machine the API server does not delete a thousand objects in its 60 seconds."""

    async def done() -> bool:
        try:
            await api.request("DELETE", path)
        except ApiFailureError as error:
            if error.status != TIMED_OUT:
                raise
            return False
        return True

    await until(done, 300, f"the deletion of {path}")


async def create(api: Api, kind: Kind, where: str, group: str, count: int) -> list[str]:
    """Create `count` jobs with 8 creators at once; their names."""
    made = [f"j{number:04d}" for number in range(count)]

    async def one(name: str) -> None:
        await api.request("POST", kind.collection(where), kind.manifest(name, group))

    await spread(one, made, CREATORS)
    return made


async def all_running(api: Api, where: str, count: int, seconds: float = 240) -> list[dict[str, Any]]:
    """The pods of a namespace once `count` of them run. The API server answers from its cache."""

    async def running() -> list[dict[str, Any]]:
        pods = await api.items(f"/api/v1/namespaces/{where}/pods?resourceVersion=0")
        live = [p for p in pods if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")]
        return live if len(live) >= count else []

    return await until(running, seconds, f"{count} pods to run in {where}", every=1.0 if count > 50 else 0.1)


async def all_known_running(audit: AuditLog, where: str, count: int, seconds: float = 240) -> None:
    """Until the operator has written that `count` jobs run."""

    async def known() -> bool:
        said = {
            write.name
            for write in audit.by(OPERATOR)
            if write.namespace == where and (write.body.get("status") or {}).get("phase") == "Running"
        }
        return len(said) >= count

    await until(known, seconds, f"{count} jobs to be Running", every=0.5)


async def at_rest(audit: AuditLog, kind: Kind) -> None:
    """Until nobody wrote for jobs of this kind for three looks, one second apart, besides Events and Leases."""
    seen: list[int] = []

    async def still() -> bool:
        seen.append(sum(kind.costs(audit).values()))
        return len(seen) > 3 and len(set(seen[-4:])) == 1

    await until(still, 120, f"{kind.title} to come to rest", every=1.0)
