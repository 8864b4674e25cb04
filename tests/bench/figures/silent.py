"""A node falls silent: last heartbeat → NotReady → replacement POSTed. The old writer has said that it is fenced."""

from tests.bench import jobs
from tests.bench.api import Raw
from tests.bench.audit import NODE_CONTROLLER, Write
from tests.bench.context import Bench
from tests.bench.control_plane.cluster import NODE_GRACE
from tests.bench.control_plane.kubelet import beating, run_pod
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST
from tests.bench.stats import Sample
from tests.bench.trainers import trainers
from tests.bench.waiting import until

NAME = "j0000"


async def measure(bench: Bench) -> list[Measured]:
    """Rounds with one node each; other nodes stay healthy, or it would count as an outage of the network."""
    after, whole = [], []
    async with bench.operator() as operator:
        for number in range(bench.size(2, 1)):
            one, all_of_it = await _round(bench, operator.progress_url, f"silent-{number}")
            after.append(one)
            whole.append(all_of_it)
    last = Sample.of(after)
    return [
        Measured("silent", last.most, note=f"slowest of {last.count}: {', '.join(f'{s:.2f}' for s in after)} s"),
        Measured("silent-all", max(whole), limit=NODE_GRACE),
    ]


async def _round(bench: Bench, url: str, group: str) -> tuple[float, float]:
    node = f"{group}-quiet"
    await bench.nodes(f"{group}-others", 3)
    async with jobs.namespace(bench.api, group) as where:
        bench.audit.start()
        async with beating(bench.api, node, group) as heartbeat:
            await until(lambda: _untainted(bench, node), 30, f"{node} to be ready")
            await jobs.create(bench.api, HOLDFAST, where, group, 1)
            (pod,) = await until(lambda: _bound(bench, where), 30, "the pod to be on its node")
            await run_pod(bench.api, pod)
            await jobs.all_known_running(bench.audit, where, 1)
            (member,) = await trainers(bench.api, [pod], url)
            for _ in range(3):
                await member.report()
            await until(lambda: _fenced(bench, where), 30, "fenced to be in status")
            await bench.nodes(group, 1)
            await member.report()
            await member.close()
            bench.audit.start()

        async def posted() -> list[Write]:
            return HOLDFAST.replacements(bench.audit, where)

        (post,) = await until(posted, 120, "the replacement", every=0.25)
        not_ready = _not_ready(bench, node)
        await bench.api.request("DELETE", f"/api/v1/nodes/{node}")
        return post.received - not_ready, post.received - heartbeat.last


def _not_ready(bench: Bench, node: str) -> float:
    """When the node controller's word that the node is NotReady was in the API."""

    def says_so(write: Write) -> bool:
        if (write.user, write.resource, write.name) != (NODE_CONTROLLER, "nodes/status", node):
            return False
        conditions = (write.body.get("status") or {}).get("conditions") or ()
        return any(c.get("type") == "Ready" and c.get("status") == "Unknown" for c in conditions)

    return bench.audit.find(says_so)[0].answered


async def _untainted(bench: Bench, node: str) -> bool:
    return not (await bench.api.request("GET", f"/api/v1/nodes/{node}"))["spec"].get("taints")


async def _bound(bench: Bench, where: str) -> list[Raw]:
    pods = await bench.api.items(f"/api/v1/namespaces/{where}/pods")
    return [pod for pod in pods if pod["spec"].get("nodeName")]


async def _fenced(bench: Bench, where: str) -> bool:
    found = await bench.api.request("GET", f"{HOLDFAST.collection(where)}/{NAME}")
    current = (found.get("status") or {}).get("current") or {}
    return bool(current.get("fenced")) and current.get("firstStep") is not None
