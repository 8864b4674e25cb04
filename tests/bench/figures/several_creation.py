"""Many trainings on several nodes at once: how fast their pods are made, and what one costs until it runs.

Beside them Jobs and, where its controller can be built, JobSets of one such Job each.
"""

from dataclasses import dataclass
from statistics import median

from tests.bench import jobs, launchers
from tests.bench.api import Api, Raw
from tests.bench.audit import Write
from tests.bench.context import Bench
from tests.bench.control_plane import jobset
from tests.bench.figures.creation import post_alone
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB, JOBSET, Kind, on_nodes
from tests.bench.stats import Sample
from tests.bench.waiting import until

from holdfast_local.errors import ToolError

JOBS = 100
NODES = 8  # of one job
IN_CLUSTER = 16
WARM_UP = 4
OURS, THEIRS, SETS = (on_nodes(kind, NODES) for kind in (HOLDFAST, JOB, JOBSET))


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
    found: dict[Kind, list[Round]] = {OURS: [], THEIRS: []}
    try:
        controller = jobset.JobSetController(bench.cluster)
        found[SETS] = []
        of_sets = f"JobSet is {jobset.version()} without its webhooks, which would be one more call for each object"
    except ToolError as error:
        of_sets = f"JobSet was not measured: {error}"
    async with bench.operator() as operator:

        async def burst(kind: Kind, size: int) -> Round:
            if kind is not SETS:
                return await _burst(bench, kind, size, operator.progress_url)
            with controller:  # beside the others it would watch their pods
                await controller.ready()
                return await _burst(bench, kind, size, operator.progress_url)

        for kind in found:
            await burst(kind, WARM_UP)
        for _ in range(rounds):
            for kind, of_kind in found.items():
                of_kind.append(await burst(kind, count))
        alone = await post_alone(bench, found[OURS][-1].pod, count * NODES)
    middle = {kind: _middle(of_kind) for kind, of_kind in found.items()}
    rates = "; ".join(f"{kind.title} {_rates(of_kind)}" for kind, of_kind in found.items())
    note = (
        f"{count} jobs of {NODES}, rounds: {rounds}; {rates}; "
        f"a bare client that POSTs only Holdfast's pods {alone:.1f}/s; {of_sets}"
    )
    rate, rate_of_jobs = (median(one.rate for one in found[kind]) for kind in (OURS, THEIRS))
    mine, job = middle[OURS], middle[THEIRS]
    delays = "; ".join(f"{kind.title} {one.delay}" for kind, one in middle.items())
    kinds = "; ".join(f"{kind.title} {one.kinds}" for kind, one in middle.items())
    return [
        Measured("several-create", rate, rate_of_jobs, note=note),
        Measured("several-create-p99", mine.delay.p99, job.delay.p99, note=delays),
        Measured("several-writes", mine.writes, job.writes, note=kinds),
    ]


def _middle(rounds: list[Round]) -> Round:
    return sorted(rounds, key=lambda r: r.rate)[len(rounds) // 2]


def _rates(rounds: list[Round]) -> str:
    return ", ".join(f"{r.rate:.1f}" for r in rounds) + "/s"


async def _burst(bench: Bench, kind: Kind, count: int, url: str) -> Round:
    more = [kind] if kind is SETS else []
    async with jobs.namespace(bench.api, f"several-{kind.title.lower()}", *more) as where:
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
        await jobs.at_rest(bench.audit, kind)
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
    spent = kind.costs(bench.audit)
    return Round(
        rate=len(made) * NODES / (last - min(created.values())),
        delay=Sample.of([max(post.received for post in posts[name]) - created[name] for name in made]),
        writes=sum(spent.values()) / len(made),
        kinds=", ".join(f"{verb} {number / len(made):.2f}" for verb, number in sorted(spent.items())),
        pod=posts[made[0]][0].body,
    )
