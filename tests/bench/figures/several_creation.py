"""Many trainings on several nodes at once: how fast their pods are made, and what one costs until it runs."""

from dataclasses import dataclass
from statistics import median

from tests.bench import jobs, launchers
from tests.bench.api import Api, Raw
from tests.bench.audit import Write, costs
from tests.bench.context import Bench
from tests.bench.figures.creation import post_alone
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB, Kind, on_nodes
from tests.bench.stats import Sample
from tests.bench.waiting import until

JOBS = 100
NODES = 8  # of one job
IN_CLUSTER = 16
WARM_UP = 4
OURS, THEIRS = on_nodes(HOLDFAST, NODES), on_nodes(JOB, NODES)


@dataclass(frozen=True, slots=True)
class Round:
    """One burst: pods a second, seconds from a job to its last pod, and writes a job until it runs."""

    rate: float
    delay: Sample
    writes: float
    kinds: str
    pod: Raw


async def measure(bench: Bench) -> list[Measured]:
    """Rounds in turn. The writes are counted until all launchers have the order to start and status says Running."""
    count, rounds = bench.size(JOBS, 20), bench.size(3, 1)
    await bench.nodes("several", IN_CLUSTER)
    ours: list[Round] = []
    theirs: list[Round] = []
    async with bench.operator() as operator:
        for kind in (OURS, THEIRS):
            await _burst(bench, kind, WARM_UP, operator.progress_url)
        for _ in range(rounds):
            ours.append(await _burst(bench, OURS, count, operator.progress_url))
            theirs.append(await _burst(bench, THEIRS, count, operator.progress_url))
        alone = await post_alone(bench, ours[-1].pod, count * NODES)
    mine, job = _middle(ours), _middle(theirs)
    note = (
        f"{count} jobs of {NODES}, rounds: {rounds}; Holdfast {_rates(ours)}; Job {_rates(theirs)}; "
        f"a bare client that POSTs only Holdfast's pods {alone:.1f}/s; JobSet was not measured"
    )
    return [
        Measured("several-create", median(r.rate for r in ours), median(r.rate for r in theirs), note=note),
        Measured("several-create-p99", mine.delay.p99, job.delay.p99, note=f"Holdfast {mine.delay}; Job {job.delay}"),
        Measured("several-writes", mine.writes, job.writes, note=f"Holdfast {mine.kinds}; Job {job.kinds}"),
    ]


def _middle(rounds: list[Round]) -> Round:
    return sorted(rounds, key=lambda r: r.rate)[len(rounds) // 2]


def _rates(rounds: list[Round]) -> str:
    return ", ".join(f"{r.rate:.1f}" for r in rounds) + "/s"


async def _burst(bench: Bench, kind: Kind, count: int, url: str) -> Round:
    async with jobs.namespace(bench.api, f"several-{kind.title.lower()}") as where:
        bench.audit.start()
        async with Api(bench.cluster, jobs.CREATORS) as creators:
            made = await jobs.create(creators, kind, where, "several", count)

        async def all_there() -> bool:
            return len(kind.replacements(bench.audit, where)) >= count * NODES

        await until(all_there, 240, f"{count * NODES} pods by {kind.title}", every=0.5)
        pods = await jobs.all_running(bench.api, where, count * NODES)
        members = []
        if kind is OURS:
            members = await launchers.launchers(bench.api, pods, url)
            await launchers.begin(members)
            await jobs.all_known_running(bench.audit, where, count)
        await jobs.at_rest(bench.audit, kind.user)
        found = _read(bench, kind, where, made)
        await launchers.end(members)
        return found


def _read(bench: Bench, kind: Kind, where: str, made: list[str]) -> Round:
    resource = kind.path.rpartition("/")[2]
    created = {
        write.body["metadata"]["name"]: write.received
        for write in bench.audit.find(lambda w: w.verb == "create" and w.resource == resource and w.namespace == where)
    }
    posts: dict[str, list[Write]] = {}
    for post in kind.replacements(bench.audit, where):
        posts.setdefault(kind.job_of(post), []).append(post)
    last = max(post.answered for of_job in posts.values() for post in of_job)
    spent = costs(bench.audit.by(kind.user))
    return Round(
        rate=len(made) * NODES / (last - min(created.values())),
        delay=Sample.of([max(post.received for post in posts[name]) - created[name] for name in made]),
        writes=sum(spent.values()) / len(made),
        kinds=", ".join(f"{verb} {number / len(made):.2f}" for verb, number in sorted(spent.items())),
        pod=posts[made[0]][0].body,
    )
