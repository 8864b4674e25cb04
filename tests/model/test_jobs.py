"""Two jobs, one with and one without the library, live through all that a cluster can do to them.

Hypothesis chooses what happens. The world (world.py) checks at every write what must always hold; in the end all faults
stop, and every job has to come to rest: Completed, Failed, Suspended or gone, with no further write.
"""

from datetime import timedelta

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.model.operator_model import Operator
from tests.model.things import Pod
from tests.model.world import World
from tests.support.decisions import ledger_replay
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import PRICES, TIERS, stored, verdict
from tests.support.decisions.tiers_in_use import check_tier_in_use
from tests.support.decisions.truth import check_truth

from holdfast.api import names
from holdfast.api.model import merge_patch
from holdfast.api.status import Phase
from holdfast.core.decision import Decision
from holdfast.core.made_from import other_work
from holdfast.core.observe.look import look
from holdfast.core.observe.situation import Sight
from holdfast.core.observe.snapshot import Refusal, Snapshot

POLICIES: tuple[dict[str, str], ...] = (  # of job lib; at some 10 steps a second, a little and much slack, and none
    {},
    {"policy": "Deadline", "deadline": "2026-11-21T14:00:00Z"},
    {"policy": "Deadline", "deadline": "2026-11-23T09:00:00Z"},
    {"policy": "Deadline", "deadline": "2026-11-21T08:00:00Z", "returnPolicy": "Eager"},
    {"policy": "Cheapest", "budget": "3"},
)
JOBS = st.sampled_from(("lib", "plain"))
EVERYTHING = 99
WRITES = st.sampled_from((EVERYTHING, EVERYTHING, EVERYTHING, 0, 1, 2))
OTHER_PODS = {"tolerations": [{"key": "new", "operator": "Exists"}]}
TAINT = "aws-node-termination-handler/spot-itn"
REFUSALS = (
    Refusal(0, World().now, 403, "Forbidden", "exceeded quota: gpus"),
    Refusal(0, World().now, 422, "Invalid", "spec.containers[0].image: Invalid value"),
    Refusal(0, World().now, 409, "NameTaken", "pod exists and does not belong to this job"),
)


class Jobs(RuleBasedStateMachine):
    """What can happen."""

    @initialize(days=st.sampled_from((0, 2, 2, 2)), policy=st.sampled_from(POLICIES), profile=st.booleans())
    def begin(self, days: int, policy: dict[str, str], profile: bool) -> None:
        self.policy = policy
        capacity = {"profile": "grid"} if profile else {"tiers": list(TIERS)}
        changes = {"capacity": {**capacity, **policy}, **({"goal": {"steps": 10**5}} if policy else {})}
        self.world = World(**changes)
        self.operator = Operator(self.world)
        for _ in range(days):
            self._usual_day(EVERYTHING, 1)

    # --- the operator

    @rule(job=JOBS, writes=WRITES)
    def operate(self, job: str, writes: int) -> None:
        self.operator.operate(job, writes)

    @rule(job=JOBS)
    def operate_on_fresh_view(self, job: str) -> None:
        self._see_everything()
        self.operator.operate(job, EVERYTHING)

    @rule(job=JOBS, back=st.integers(1, 8), fresh_nodes=st.booleans())
    def operate_on_an_old_job(self, job: str, back: int, fresh_nodes: bool) -> None:
        """Everything else is seen as it is; what needs no status patch must be right all the same."""
        past = self.world.past[job][-back:]
        if past and job in self.operator.jobs:
            self.operator.sync_pods()
            if fresh_nodes:
                self.operator.sync_nodes()
            self.operator.jobs[job] = past[0]
            self.operator.operate(job, EVERYTHING)
            self.operator.sync_jobs()

    @rule(which=st.sampled_from(("jobs", "pods", "nodes")))
    def watch_catches_up(self, which: str) -> None:
        getattr(self.operator, f"sync_{which}")()

    @rule(hours=st.sampled_from((0.01, 1, 30)))
    def operator_is_down(self, hours: float) -> None:
        for _ in range(5):
            self._others(120)
        self.world.now += timedelta(hours=hours)
        self.operator.restart()

    # --- the world goes on

    @rule(seconds=st.sampled_from((1, 3, 10, 40, 150, 400)))
    def time_passes(self, seconds: int) -> None:
        if seconds > 1:
            self._see_everything()
        self.world.now += timedelta(seconds=seconds)
        self.operator.catch_up()

    @rule()
    def scheduler(self) -> None:
        self.world.schedule()

    @rule()
    def kubelets(self) -> None:
        self.world.kubelets()

    @rule(job=JOBS, steps=st.sampled_from((1, 30, 300)))
    def train(self, job: str, steps: int) -> None:
        for pod in self._processes(job):
            self.world.train(pod, steps)
            self._report(pod)

    @rule(writes=WRITES, seconds=st.sampled_from((1, 40)))
    def usual_day(self, writes: int, seconds: int) -> None:
        self._usual_day(writes, seconds)

    @rule(writes=WRITES, seconds=st.sampled_from((1, 10)))
    def another_day(self, writes: int, seconds: int) -> None:
        self._usual_day(writes, seconds)

    @rule(job=JOBS)
    def program_completes(self, job: str) -> None:
        for pod in self._processes(job):
            pod.end(self.world.now, 0, verdict("completed", "Exited"))

    # --- faults

    @rule(name=st.sampled_from(("s1", "s2", "d1")))
    def notice(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.nodes[name].taints = (TAINT,)

    @rule(name=st.sampled_from(("s1", "s2", "d1")))
    def notice_is_withdrawn(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.nodes[name].taints = ()

    @rule(name=st.sampled_from(("s1", "s2", "d1")))
    def node_is_gone(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.remove_node(name)

    @rule(name=st.sampled_from(("s1", "s2", "d1", "c1")), network=st.booleans(), dies=st.booleans())
    def node_falls_silent(self, name: str, network: bool, dies: bool) -> None:
        if name in self.world.nodes:
            self.world.set_node(name, kubelet=False, network=network)
            if dies:
                self.world.kill_processes(name)

    @rule(job=JOBS, network=st.booleans())
    def the_node_of_a_job_falls_silent(self, job: str, network: bool) -> None:
        for pod in self._processes(job):
            if pod.node in self.world.nodes:
                self.world.set_node(pod.node, kubelet=False, network=network)
        self.world.now += timedelta(seconds=40)
        self._usual_day(EVERYTHING, 1)

    @rule(writes=WRITES)
    def a_successor_comes_up(self, writes: int) -> None:
        """The node of the job that can train on is to go."""
        for pod in self._processes("lib"):
            if pod.node in self.world.nodes and pod.node != "c1":
                self.world.nodes[pod.node].taints = (TAINT,)
        for _ in range(3):
            self._see_everything()
            self.operator.operate("lib", writes)
            self.world.schedule()
            self.world.kubelets()

    @rule(how=st.sampled_from(("notice", "silent", "gone", "deleted", "fails", "finalizer")))
    def the_successor_is_lost(self, how: str) -> None:
        status = self.world.jobs["lib"].view().status if "lib" in self.world.jobs else None
        number = status.successor.number if status and status.successor else 0
        for name, pod in list(self.world.pods.items()):
            if (pod.job, pod.attempt) != ("lib", number):
                continue
            match how:
                case "notice" if pod.node in self.world.nodes:
                    self.world.nodes[pod.node].taints = (TAINT,)
                case "silent" if pod.node in self.world.nodes:
                    self.world.set_node(pod.node, kubelet=False, network=False)
                case "gone" if pod.node in self.world.nodes:
                    self.world.remove_node(pod.node)
                case "deleted":
                    self.world.erase(pod)
                case "fails" if pod.process == "running":
                    pod.end(self.world.now, 1, verdict("failed", "UserException"))
                case "finalizer" if pod.process != "running":
                    del self.world.pods[name]

    @rule(job=JOBS)
    def a_program_hangs_when_it_is_to_leave(self, job: str) -> None:
        for pod in self._processes(job):
            pod.stuck = True
            self.world.erase(pod, 1)
        for _ in range(2):
            self._usual_day(EVERYTHING, 10)

    @rule()
    def all_nodes_fall_silent(self) -> None:
        for name in self.world.nodes:
            self.world.set_node(name, kubelet=True, network=False)

    @rule()
    def nodes_come_back(self) -> None:
        for name in self.world.nodes:
            self.world.set_node(name, kubelet=True, network=True)

    @rule(name=st.sampled_from(("s1", "s2", "d1", "c1")))
    def fresh_node(self, name: str) -> None:
        if name not in self.world.nodes:
            self.world.add_node(name, {"s": "spot", "d": "dedicated", "c": "cpu"}[name[0]])

    @rule(job=JOBS, how=st.sampled_from(("exception", "oom", "killed")))
    def program_fails(self, job: str, how: str) -> None:
        for pod in self._processes(job):
            match how:
                case "exception":
                    pod.end(self.world.now, 1, verdict("failed", "UserException", lastLines=["ValueError: no"]))
                case "oom":
                    pod.end(self.world.now, 137, reason="OOMKilled")
                case "killed":
                    pod.end(self.world.now, 137)

    @rule(job=JOBS, grace=st.sampled_from((None, 0)))
    def user_deletes_the_pod(self, job: str, grace: int | None) -> None:
        for pod in [pod for pod in self.world.pods.values() if pod.job == job]:
            if grace == 0 and pod.process == "running":
                pod.end(self.world.now, 137)  # its kubelet kills it, or a forced deletion says that nothing runs
            self.world.erase(pod, grace)

    @rule(job=JOBS)
    def user_removes_the_finalizer_too(self, job: str) -> None:
        for name, pod in list(self.world.pods.items()):
            node = self.world.nodes.get(pod.node or "")
            if pod.job == job and (node is None or node.ready):
                pod.process = "ended"
                del self.world.pods[name]

    @rule(refusal=st.sampled_from((None, *REFUSALS)))
    def api_server_refuses(self, refusal: Refusal | None) -> None:
        self.world.refusing = refusal

    # --- people

    @rule(job=JOBS, suspend=st.booleans())
    def suspend_or_resume(self, job: str, suspend: bool) -> None:
        self._edit(job, suspend=suspend)

    @rule(job=JOBS, tag=st.sampled_from(("1", "2")))
    def another_program(self, job: str, tag: str) -> None:
        """Suspended, edited and resumed between two looks of the operator."""
        self._edit(job, suspend=False, trainer={"image": f"registry.example/train:{tag}", "command": ["train"]})

    @rule(job=JOBS, every=st.sampled_from(("10m", "600s", "1h")))
    def another_interval(self, job: str, every: str) -> None:
        if found := self.world.jobs.get(job):
            self._edit(job, checkpoint={**found.spec["checkpoint"], "every": every})

    @rule(job=JOBS, keep=st.sampled_from(((0, 1, 2), (0, 2), (1, 2), ())), changed=st.booleans())
    def edit_the_grid(self, job: str, keep: tuple[int, ...], changed: bool) -> None:
        """Tiers vanish, come back, or their pods are made otherwise; a profile may be deleted."""
        tiers = [{**TIERS[i], **(OTHER_PODS if changed else {})} for i in keep]
        found = self.world.jobs.get(job)
        if found and "profile" in found.spec["capacity"]:
            self.world.profile = tiers
        elif tiers:
            self._edit(job, capacity={"tiers": tiers, **(self.policy if job == "lib" else {})})

    @rule(job=JOBS, tier=st.sampled_from(("", "cpu", "dedicated", "nowhere")), kind=st.booleans())
    def ask(self, job: str, tier: str, kind: bool) -> None:
        if found := self.world.jobs.get(job):
            annotation = names.ANNOTATION_MOVE if kind else names.ANNOTATION_CHECKPOINT
            found.annotations[annotation] = f"r{self.world.serial()} {tier}".strip()
            found.version += 1

    @rule(job=JOBS)
    def the_operator_dies_before_it_deletes(self, job: str) -> None:
        """Status says that the pod of a job that has to move was deleted, and it was not."""
        self.ask(job, "", kind=True)
        for writes in (EVERYTHING, 1):
            self._see_everything()
            self.operator.operate(job, writes)
            self.world.now += timedelta(seconds=6)

    @precondition(lambda self: self.world.count > 60)
    @rule(job=JOBS)
    def delete_the_job(self, job: str) -> None:
        if found := self.world.jobs.get(job):
            found.deleted = True
            found.version += 1

    # --- what must hold

    @invariant()
    def quiet_after_deciding(self) -> None:
        """Deciding again from the stored outcome with the same view fires no row and changes nothing.

        A new job's first pod leaves no trace but itself.
        """
        if not hasattr(self, "operator"):
            return
        for name, job in list(self.operator.jobs.items()):
            check_alive(given := self.operator.snapshot(name), first := self.operator.decide(name))
            self._check_program(given, first)
            check_truth(given, first.status)
            check_tier_in_use(given, first.status)
            if first.trace == ("first pod",):
                assert first.status == job.status
                continue
            refusal = self.operator.refusals.pop(name, None)
            self.operator.jobs[name] = stored(job, first.status)
            again = self.operator.decide(name)
            assert again.trace == (), (first.trace, again.trace)
            assert merge_patch(self.operator.jobs[name].status, again.status) == {}
            self.operator.jobs[name] = job
            if refusal:
                self.operator.refusals[name] = refusal

    def _check_program(self, given: Snapshot, decision: Decision) -> None:
        """No attempt waits, starts or trains on with a program that the spec does not name."""
        for one in (decision.status.current, decision.status.successor):
            if one is not None and one.drain is None and other_work(one, given.job.spec):
                assert look(given, one).sight in (Sight.SILENT, Sight.VANISHED, Sight.NODE_GONE), decision.trace

    def teardown(self) -> None:
        """The faults stop: everything comes to rest."""
        if not hasattr(self, "operator"):
            return
        self.world.heal()
        self.operator.restart()
        for _ in range(150):
            quiet = self._operate_until_quiet()
            if quiet and self._at_rest():
                break
            self._others(100)
            self.world.now += timedelta(seconds=20)
        assert self._at_rest(), self._describe()
        for name, job in self.world.jobs.items():
            statuses = self.world.statuses(name)
            replay = ledger_replay.Replay(PRICES).take(statuses)
            ledger_replay.check(job.view().status.ledger, replay)
            ledger_replay.check_counters(statuses, replay)
        writes = self.world.writes
        for _ in range(2):
            self.operator.restart()
            for name in ("lib", "plain"):
                assert self.operator.operate(name, EVERYTHING), self._describe()
        assert self.world.writes == writes

    # --- helpers

    def _usual_day(self, writes: int, seconds: int) -> None:
        for _ in range(4):
            self._see_everything()
            for job in ("lib", "plain"):
                self.operator.operate(job, writes)
            self._others(10)
            self.world.now += timedelta(seconds=seconds)

    def _see_everything(self) -> None:
        self.operator.sync_jobs()
        self.operator.sync_pods()
        self.operator.sync_nodes()

    def _operate_until_quiet(self) -> bool:
        for _ in range(12):
            self._see_everything()
            quiet = [self.operator.operate(name, EVERYTHING) for name in ("lib", "plain")]
            if all(quiet):
                return True
        raise AssertionError(f"the operator does not come to rest: {self._describe()}")

    def _others(self, steps: int) -> None:
        self.world.schedule()
        self.world.kubelets()
        for job in ("lib", "plain"):
            for pod in self._processes(job):
                self.world.train(pod, steps)
                self._report(pod)
        self.world.kubelets()

    def _processes(self, job: str) -> list[Pod]:
        everything = (*self.world.pods.values(), *self.world.zombies)
        return [pod for pod in everything if pod.job == job and pod.process == "running"]

    def _report(self, pod: Pod) -> None:
        node, job = self.world.nodes.get(pod.node or ""), self.world.jobs.get(pod.job)
        if job and job.library and node and node.network and pod.process == "running":
            self.operator.hear(pod)

    def _edit(self, job: str, **changes: object) -> None:
        if found := self.world.jobs.get(job):
            found.spec = {**found.spec, **changes}
            found.version += 1
            found.generation += 1

    def _at_rest(self) -> bool:
        def resting(name: str) -> bool:
            job = self.world.jobs.get(name)
            if job is None:
                return True
            status = job.view().status
            # A budget may be used up while the operator is down; this test does not raise it.
            paused = job.spec.get("suspend") or status.reason == "BudgetExceeded" or status.misconfigured
            return status.phase in (Phase.COMPLETED, Phase.FAILED) or (status.phase is Phase.SUSPENDED and bool(paused))

        done = all(not pod.finalized and not pod.deleted_at for pod in self.world.pods.values())
        return done and resting("lib") and resting("plain")

    def _describe(self) -> str:
        jobs = {
            name: (
                job.spec.get("suspend"),
                job.status.get("phase"),
                job.status.get("reason"),
                job.status.get("current"),
                job.status.get("decision"),
            )
            for name, job in self.world.jobs.items()
        }
        pods = [(n, p.node, p.shown, p.process, p.finalized, p.deleted_at) for n, p in self.world.pods.items()]
        return f"{jobs} {pods} {list(self.world.nodes)}"


TestJobs = Jobs.TestCase
TestJobs.settings = settings(max_examples=15, stateful_step_count=40, suppress_health_check=list(HealthCheck))
