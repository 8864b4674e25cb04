"""A training that waits for nodes, and tenants that want to keep it from them.

Whatever they create, delete and wait for, free nodes that suffice for a training go to it within one turn of each of
the other tenants. The operator decides a job when it has room, which it looks for every second, or at the time that the
job named.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import CONFIG, TIERS, node

from holdfast.api.attempt import AttemptState

NODES = 4
TENANTS = 2
TURN = CONFIG.placing_timeout + timedelta(seconds=1)
BOUND = TENANTS * TURN
TIER = {**TIERS[0], "observation": "Free", "acquireTimeout": "7d"}


class HostileTenants(RuleBasedStateMachine):
    """One training of a tenant who plays by the rules, and two tenants who do not."""

    @initialize()
    def begin(self) -> None:
        """The cluster has four nodes, each of which has a name that a tenant may ask for."""
        self.here = GangWorld(2, self.spec(), "nobody", "nobody")
        self.here.neighbours.clear()
        self.here.free.clear()
        self.here.nodes.clear()
        for name in (f"n{number}" for number in range(NODES)):
            self.here.nodes[name] = node(name, labels={"tier": "spot", "host": name})
            self.here.free.append(name)
        self.victim: GangWorld | None = None
        self.others: list[GangWorld] = []
        self.number = 0
        self.wakes: dict[str, datetime] = {}
        self.suffices_since: datetime | None = None

    @rule(size=st.integers(2, NODES))
    def arrive(self, size: int) -> None:
        """The training comes, also again after it has begun."""
        if self.victim is not None:
            if self.waits(self.victim):
                return
            self.here.neighbours.remove(self.victim)
        self.number += 1
        self.victim = GangWorld(size, self.spec(), f"victim{self.number}", "good", self.here)
        self.suffices_since = None
        self.decide(self.victim)
        self.operate()

    @staticmethod
    def waits(one: GangWorld) -> bool:
        """True if no pod of it was made, and it does not pause after it gave a part back."""
        current = one.status.current
        return current is not None and current.state is AttemptState.INTENDED and not current.retry_at

    @staticmethod
    def spec(**tier: Any) -> dict[str, Any]:
        """A job on the only tier; the tenants' jobs end at once, and never for good."""
        rules = {"maxFailures": 100, "maxFruitless": 1000}
        return {"capacity": {"tiers": [{**TIER, **tier}]}, "failure": rules, "activeDeadline": "365d"}

    def decide(self, one: GangWorld) -> None:
        """The operator decides a job, and notes when it is to be decided again."""
        one.decide()
        if one.last and one.last.requeue_at:
            self.wakes[one.name] = one.last.requeue_at

    def woken(self) -> set[str]:
        """The jobs that have room now."""
        granted = self.here.room().granted(self.here.now)
        return {one.ask.job for one in granted if not one.ask.begun}

    def operate(self) -> None:
        """The operator decides all jobs that are due, or have room now; the others first."""
        for _ in range(10):
            known = self.woken()
            due = [one for one in (*self.others, *([self.victim] if self.victim else []))
                   if one.name in known or self.wakes.get(one.name, one.now + TURN) <= one.now]  # fmt: skip
            changed = False
            for one in due:
                before = one.status
                self.wakes.pop(one.name, None)
                self.decide(one)
                changed = changed or one.status != before
            if not changed:
                return

    @rule(tenant=st.integers(1, TENANTS), size=st.sampled_from((2, 3, 4, 9)), host=st.integers(0, 4 * NODES))
    def create(self, tenant: int, size: int, host: int) -> None:
        """A tenant creates a training; some ask for one node by its name."""
        if len(self.others) >= 6:
            return
        self.number += 1
        selector = {"tier": "spot", "host": f"n{host}"} if host < NODES else {"tier": "spot"}
        spec = self.spec(nodeSelector=selector)
        self.others.append(GangWorld(size, spec, f"evil{self.number}", f"evil{tenant}", self.here))
        self.decide(self.others[-1])
        self.operate()

    @rule(which=st.integers(0, 5))
    def delete(self, which: int) -> None:
        """A tenant deletes a job with all of its pods."""
        if which < len(self.others):
            gone = self.others.pop(which)
            self.here.neighbours.remove(gone)
            self.operate()

    @rule(which=st.integers(0, 5), count=st.integers(0, 2))
    def bind(self, which: int, count: int) -> None:
        """The scheduler binds some pods of a tenant's job, and finds no node for the others."""
        if which < len(self.others):
            self.others[which].schedule(count)
            self.decide(self.others[which])
            self.operate()

    @rule(seconds=st.integers(1, 30))
    def wait(self, seconds: int) -> None:
        """Time passes, second by second."""
        for _ in range(seconds):
            self.here.now += timedelta(seconds=1)
            self.operate()
            for one in self.others:
                one.kubelets()
            self.look()

    def look(self) -> None:
        """Note since when the nodes that no pod has suffice for the training."""
        if self.victim is None:
            return
        used = {pod.node for one in self.others for pod in one.pods.values() if pod.node and not pod.ended}
        if NODES - len(used) < self.victim.size:
            self.suffices_since = None
        elif self.suffices_since is None:
            self.suffices_since = self.here.now

    @invariant()
    def has_its_nodes_soon(self) -> None:
        """Its pods exist once free nodes have sufficed for one turn of each of the others."""
        if not hasattr(self, "here") or self.victim is None:
            return
        self.look()
        if self.suffices_since is not None and self.waits(self.victim):
            assert self.here.now - self.suffices_since <= BOUND, self.victim.status.decision


TestHostileTenants = HostileTenants.TestCase
TestHostileTenants.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    phases=(Phase.generate,),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.thorough
class TestHostileTenantsLonger(HostileTenants.TestCase):
    """The same with 100 courses of events."""

    settings = settings(TestHostileTenants.settings, max_examples=100)
