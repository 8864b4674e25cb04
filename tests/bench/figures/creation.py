"""Many jobs at once: how fast pods are made, and what that costs the API server. Job and bare clients beside it."""

from dataclasses import dataclass
from statistics import median

from tests.bench import jobs
from tests.bench.api import MERGE, Api, Raw, spread
from tests.bench.audit import Write, costs, is_pod_post
from tests.bench.context import Bench
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB, Kind
from tests.bench.stats import Sample
from tests.bench.waiting import until

JOBS = 300
CONNECTIONS = 16
NODES = 10
WARM_UP = 40


@dataclass(frozen=True, slots=True)
class Round:
    """One burst: pods a second, seconds from job to pod, and writes a job."""

    rate: float
    delay: Sample
    writes: float
    kinds: str
    intent: Raw  # the first status of a job
    pod: Raw


async def measure(bench: Bench) -> list[Measured]:
    """Rounds in turn, so that what the machine does meanwhile hits all alike; the median round counts."""
    count, rounds = bench.size(JOBS, 100), bench.size(3, 1)
    await bench.nodes("create", NODES)
    ours: list[Round] = []
    theirs: list[Round] = []
    bare: list[float] = []
    async with bench.operator():
        for kind in (HOLDFAST, JOB):  # a fresh API server is busy with its schemas, and its caches are empty
            await _burst(bench, kind, WARM_UP)
        for _ in range(rounds):
            ours.append(await _burst(bench, HOLDFAST, count))
            theirs.append(await _burst(bench, JOB, count))
            bare.append(await post_alone(bench, ours[-1].pod, count))
    whole = [await _by_hand(bench, ours[-1], count) for _ in range(rounds)]
    return _result(ours, theirs, bare, median(whole), count)


def _result(ours: list[Round], theirs: list[Round], bare: list[float], whole: float, count: int) -> list[Measured]:
    rate, job_rate, limit = median(r.rate for r in ours), median(r.rate for r in theirs), median(bare)
    mine, job = sorted(ours, key=lambda r: r.rate)[len(ours) // 2], sorted(theirs, key=lambda r: r.rate)[len(ours) // 2]
    note = (
        f"{count} jobs, {len(ours)} rounds; Holdfast {_rates(ours)}; Job {_rates(theirs)}; "
        f"a bare client that POSTs only the pods {limit:.1f}/s; one that makes the job, writes its first status and "
        f"POSTs its pod, in Holdfast's place, {whole:.1f}/s, of which Holdfast reaches {rate / whole:.0%}"
    )
    return [
        Measured("create", rate, job_rate, limit, note),
        Measured("create-p50", mine.delay.p50, job.delay.p50, note=f"Holdfast {mine.delay}; Job {job.delay}"),
        Measured("create-p99", mine.delay.p99, job.delay.p99),
        Measured("writes", mine.writes, job.writes, note=f"Holdfast {mine.kinds}; Job {job.kinds}"),
    ]


def _rates(rounds: list[Round]) -> str:
    return ", ".join(f"{r.rate:.1f}" for r in rounds) + "/s"


async def _burst(bench: Bench, kind: Kind, count: int) -> Round:
    async with jobs.namespace(bench.api, f"create-{kind.title.lower()}") as where:
        bench.audit.start()
        async with Api(bench.cluster, jobs.CREATORS) as creators:
            made = await jobs.create(creators, kind, where, "create", count)

        async def all_there() -> bool:
            return len(kind.replacements(bench.audit, where)) >= count

        await until(all_there, 240, f"{count} pods by {kind.title}", every=0.5)
        await jobs.all_running(bench.api, where, count)
        if kind is HOLDFAST:
            await jobs.all_known_running(bench.audit, where, count)
        await jobs.at_rest(bench.audit, kind)
        return _read(bench, kind, where, made)


def _read(bench: Bench, kind: Kind, where: str, made: list[str]) -> Round:
    resource = kind.path.rpartition("/")[2]
    created = {
        write.body["metadata"]["name"]: write
        for write in bench.audit.find(lambda w: w.verb == "create" and w.resource == resource and w.namespace == where)
    }
    posts = {kind.job_of(post): post for post in reversed(kind.replacements(bench.audit, where))}
    first = min(write.received for write in created.values())
    last = max(post.answered for post in posts.values())
    spent = costs(bench.audit.by(kind.user))
    status = bench.audit.find(lambda w: w.resource == f"{resource}/status" and w.namespace == where)
    kinds = ", ".join(f"{verb} {number / len(made):.2f}" for verb, number in sorted(spent.items()))
    return Round(
        rate=len(made) / (last - first),
        delay=Sample.of([posts[name].received - created[name].received for name in made]),
        writes=sum(spent.values()) / len(made),
        kinds=kinds,
        intent=status[0].body["status"],
        pod=next(iter(posts.values())).body,
    )


async def post_alone(bench: Bench, pod: Raw, count: int) -> float:
    """What the API server can do: the same pods, POSTed as fast as one client with 16 connections can."""
    async with jobs.namespace(bench.api, "create-bare") as where, Api(bench.cluster, CONNECTIONS) as client:
        bench.audit.start()
        await spread(lambda number: _post(client, pod, where, number), range(count), CONNECTIONS)
        posts = _posts(bench, where)
        return len(posts) / (max(p.answered for p in posts) - min(p.received for p in posts))


async def _by_hand(bench: Bench, seen: Round, count: int) -> float:
    """What the API server can do if an intent comes first: job, status, pod by one client. No operator may run."""
    async with jobs.namespace(bench.api, "create-hand") as where, Api(bench.cluster, CONNECTIONS) as client:
        path = HOLDFAST.collection(where)
        bench.audit.start()

        async def one(number: int) -> None:
            name = f"j{number:04d}"
            await client.request("POST", path, HOLDFAST.manifest(name, "create"))
            await client.request("PATCH", f"{path}/{name}/status", {"status": seen.intent}, MERGE)
            await _post(client, seen.pod, where, number)

        await spread(one, range(count), CONNECTIONS)
        made = bench.audit.find(lambda w: w.verb == "create" and w.namespace == where)
        return count / (max(p.answered for p in _posts(bench, where)) - min(w.received for w in made))


async def _post(client: Api, pod: Raw, where: str, number: int) -> None:
    """A copy that neither the garbage collector nor the operator takes for what it is not."""
    meta = {key: value for key, value in pod["metadata"].items() if key not in ("ownerReferences", "finalizers")}
    labels = {f"bench.{key}": value for key, value in meta["labels"].items()}
    meta |= {"labels": labels, "namespace": where, "name": f"p{number}"}
    await client.request("POST", f"/api/v1/namespaces/{where}/pods", {**pod, "metadata": meta})


def _posts(bench: Bench, where: str) -> list[Write]:
    return bench.audit.find(lambda w: is_pod_post(w) and w.namespace == where)
