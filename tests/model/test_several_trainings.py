"""Trainings on several nodes that share too few nodes, step by step.

Whatever happens: every job that is not over has a reason, a next action and a time to look again; once the faults are
over, no training holds a part of the nodes for long, and all complete, although the nodes are enough for one at a time.
The tiers may be fixed, or an autoscaler may bring nodes, though none comes.
"""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import TIERS, node
from tests.support.decisions.tiers_in_use import check_tier_in_use
from tests.support.decisions.truth import check_truth

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt.all_or_none import part_of
from holdfast.core.decide import decide
from holdfast.core.draft import Draft
from holdfast.core.observe.members import inherited
from holdfast.core.observe.room import Room

SPOT = {**TIERS[0], "acquireTimeout": "60s"}
DEDICATED = {**TIERS[1], "acquireTimeout": "60s"}
OTHER_PODS = {"tolerations": [{"key": "new", "operator": "Exists"}]}
LONGEST = timedelta(seconds=70)  # for which a part may be held: the acquireTimeout, and the time of a round
RULES = {"maxFailures": 100, "maxFruitless": 1000}
SIZES = (3, 3, 2)
NODES = 4  # enough for each training, and not for two of them
ROUNDS = 60  # of healing; each training needs a few
WHICH = st.integers(0, len(SIZES) - 1)


class Training(GangWorld):
    """A training whose operator may see the other ones as they were earlier."""

    view: Room | None = None
    lagging = False

    def room(self) -> Room:
        """The room of the cluster, as the cache has it."""
        if self.view is None or not self.lagging:
            self.view = super().room()
        return self.view


class SeveralTrainings(RuleBasedStateMachine):
    """Three trainings, two of them in one namespace; the second one may use another tier too."""

    @initialize(both=st.booleans(), fixed=st.booleans(), order=st.permutations(range(len(SIZES))))
    def begin(self, both: bool, fixed: bool, order: list[int]) -> None:
        """The cluster has four Spot nodes and two dedicated ones. The order is that of the names."""
        self.all: list[Training] = []
        self.capacities: list[dict[str, Any]] = []
        seen = {"observation": "Free"} if fixed else {}
        for number, size in enumerate(SIZES):
            tiers = [SPOT | seen, DEDICATED | seen] if both and number == 1 else [SPOT | seen]
            spec: dict[str, Any] = {"capacity": {"tiers": tiers}, "failure": RULES, "activeDeadline": "365d"}
            namespace = "other" if number == 2 else "vision"
            before = self.all[0] if self.all else None
            self.capacities.append(spec["capacity"])
            self.all.append(Training(size, spec, f"job{order[number]}", namespace, before))
        self.here = self.all[0]
        self.here.free.clear()
        self.here.nodes.clear()
        for number in range(NODES):
            self.add(f"n{number}", "spot")
        for number in range(2):
            self.add(f"d{number}", "dedicated")

    def add(self, name: str, tier: str) -> None:
        """A node comes."""
        self.here.nodes[name] = node(name, labels={"tier": tier}, ready_changed_at=self.here.now)
        self.here.free.append(name)

    # --- the operator, and everybody else, at their own pace

    @rule(which=WHICH, writes=st.sampled_from((None, None, None, 0, 1, 2)), lagging=st.booleans())
    def decide(self, which: int, writes: int | None, lagging: bool) -> None:
        """The operator decides; it may die in between, and may see the other trainings as they were."""
        self._decide(self.all[which], writes=writes, lagging=lagging)

    def _decide(self, one: Training, *, writes: int | None = None, lagging: bool = False) -> None:
        one.lagging = lagging
        given = one.snapshot()
        one.lagging = True
        check_alive(given, one.decide(writes))
        check_truth(given, one.last.status)
        check_tier_in_use(given, one.last.status)
        again = decide(replace(given, job=one.job, refusal=None))
        assert again.trace == (), f"a second decision changes something: {again.trace}"
        one.lagging = False

    @rule(which=WHICH)
    def promise(self, which: int) -> None:
        """The operator dies before it writes the status that names a pod."""
        self.all[which].promise()

    @rule(which=WHICH, count=st.integers(1, 3))
    def bind(self, which: int, count: int) -> None:
        """The scheduler binds some pods of a training."""
        self.all[which].schedule(count)

    @rule(which=WHICH)
    def start(self, which: int) -> None:
        """Kubelets and launchers of a training act."""
        self.all[which].kubelets()
        self.all[which].launch()

    @rule(which=WHICH)
    def settle(self, which: int) -> None:
        """One training gets all the attention."""
        self.all[which].settle()

    @rule(seconds=st.sampled_from((1, 7, 20, 45, 61, 400)))
    def wait(self, seconds: int) -> None:
        """Time passes, and nobody acts."""
        self.here.now += timedelta(seconds=seconds)

    @rule(which=WHICH)
    def train(self, which: int) -> None:
        """Some steps."""
        if (one := self.all[which]).trains() and one.status.current.state is AttemptState.RUNNING:
            one.train()

    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        """Programs that were ordered to leave do so."""
        self.all[which].leave()

    # --- faults

    @rule(name=st.integers(0, NODES - 1), what=st.sampled_from(("remove", "notice", "silence", "answer", "add")))
    def fault(self, name: int, what: str) -> None:
        """A node goes, is announced to go, falls silent, answers again, or comes."""
        known = f"n{name}"
        if what == "add" and known not in self.here.nodes:
            self.add(f"{known}x{len(self.here.free)}", "spot")  # another machine has another name
        elif known not in self.here.nodes or what == "add":
            return
        elif what == "remove":
            for one in self.all:
                one.remove(known)
                self.here.nodes.setdefault(known, node(known))
            del self.here.nodes[known]
        elif what == "notice":
            self.here.notice(known)
        else:
            self.here.silence(known, ready=what == "answer")

    @rule(which=WHICH, rank=st.integers(0, 1))
    def fail(self, which: int, rank: int) -> None:
        """A program fails."""
        one = self.all[which]
        if one.trains():
            one.fail(rank)

    @rule(which=WHICH, what=st.sampled_from(("remove", "change", "restore")))
    def edit_tiers(self, which: int, what: str) -> None:
        """A person removes the tier that the training uses, changes what its pods are made from, or takes that back."""
        before = self.capacities[which]
        tiers = {"remove": [DEDICATED], "change": [{**one, **OTHER_PODS} for one in before["tiers"]]}
        self.all[which].edit(capacity={"tiers": tiers.get(what, before["tiers"])})

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        """The job is deleted while it holds what it holds; another job takes its place."""
        old = self.all[which]
        self.here.neighbours.remove(old)
        kept = [one for one in self.all if one is not old]
        name = f"{old.name}b"
        self.all[which] = Training(old.size, old.spec, name, old.namespace, kept[0])
        if old is self.here:
            self.here = self.all[which]

    # --- what must hold in the end

    def teardown(self) -> None:
        """The faults are over: four nodes, of which each training can use all, but no two at once."""
        if not hasattr(self, "all"):
            return
        for name in list(self.here.nodes):
            for one in self.all:
                one.remove(name)
                self.here.nodes.setdefault(name, node(name))
            del self.here.nodes[name]
        self.here.free.clear()
        for number in range(NODES):
            self.add(f"fresh{number}", "spot")
        for which in range(len(self.all)):
            self.edit_tiers(which, "restore")
        orders = list(permutations(self.all))
        for number in range(ROUNDS):
            self.here.now += timedelta(seconds=(3, 20, 61, 300)[number % 4])
            self._round(orders[number % len(orders)])
            if number:  # a pod that was not created because the operator died is missed after some seconds
                self._check_parts()
            for one in self.all:
                one.leave()
                if one.trains() and one.status.current.state is AttemptState.RUNNING:
                    one.complete()
            if all(one.status.phase and one.status.phase.final for one in self.all):
                break
        ended = [(one.status.phase, one.status.reason, one.last and one.last.trace) for one in self.all]
        assert all(phase == "Completed" for phase, _, _ in ended), ended

    def _round(self, order: tuple[Training, ...]) -> None:
        """Everybody acts until nothing changes; the scheduler binds one pod of each training in turn."""
        for _ in range(80):
            before = [(one.job.status, dict(one.pods)) for one in self.all]
            for one in order:
                self._decide(one)
                one.schedule(1)
            for one in order:
                one.kubelets()
                one.launch()
            if before == [(one.job.status, dict(one.pods)) for one in self.all]:
                return
        raise AssertionError([one.last.trace for one in self.all if one.last])

    def _check_parts(self) -> None:
        """No training holds a part of the nodes for long, except where programs have run in the pods."""
        for one in self.all:
            current = one.status.current
            part = part_of(Draft(one.snapshot()), current) if current else None
            if part and not inherited(current):
                assert self.here.now - current.created_at <= LONGEST, (one.name, part)


TestSeveralTrainings = SeveralTrainings.TestCase
TestSeveralTrainings.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    phases=(Phase.generate,),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.thorough
class TestSeveralTrainingsLonger(SeveralTrainings.TestCase):
    """Breaks if a rare course of events leaves two trainings with a part of the nodes each."""

    settings = settings(TestSeveralTrainings.settings, max_examples=120)
