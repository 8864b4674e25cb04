"""The virtual cluster, through jobs that are replayed in it by the code that ships."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.model import merge_patch
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase, TrainingJobStatus
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.errors import SimulationError
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.replay import Node, Schedule, replay
from holdfast_cli.simulate.world import BEGIN, World

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
TIERS = (
    {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "1", "acquireTimeout": "5s"},
    {"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "3"},
)
TOOK = Durations(
    acquire=2 * SECOND, start=8 * SECOND, load=20 * SECOND, restore=10 * SECOND, pace=SECOND, save=3 * SECOND,
    leave=SECOND,
)  # fmt: skip
BOTH = {"spot": TOOK, "dedicated": TOOK}
DEDICATED = Node("dedicated", "d")


def job(steps: int | None = 3600, **capacity: Any) -> TrainingJob:
    tiers = [{**tier, "nodeSelector": {"tier": tier["name"]}} for tier in TIERS]
    spec = {
        "trainer": {"image": "train:1", "command": ["train"]},
        "capacity": {"tiers": tiers, **capacity},
        "checkpoint": {"storage": {"volumeClaim": {"name": "claim", "path": "job"}}, "every": "60 steps"},
        "goal": {"steps": steps},
    }
    return TrainingJob.parse({"metadata": {"name": "job", "namespace": "n", "uid": "u"}, "spec": spec})


def spot(*spells: Spell) -> Node:
    return Node("spot", "s", spells)


def up(start: float, end: float | None = None, notice: float = 0) -> Spell:
    """A spell in minutes; the notice in seconds."""
    return Spell(start * MINUTE, None if end is None else end * MINUTE, notice * SECOND)


def trained(status: TrainingJobStatus) -> list[AttemptRecord]:
    """The attempts that took steps."""
    return [record for record in status.history if record.steps_trained]


def billed(world: World) -> Decimal:
    return sum((one.cost for one in world.bill if not one.idle), Decimal(0))


# Breaks if any of the durations is left out, or counted twice.
def test_an_undisturbed_job_takes_the_sum_of_its_durations() -> None:
    status = replay(job(), Schedule([spot(up(0)), DEDICATED]), BOTH).status
    assert status.phase is Phase.COMPLETED
    (record,) = trained(status)
    begun = [record.scheduled_at, record.started_at, record.first_step_at, record.last_step_at, record.ended_at]
    assert [(at - BEGIN).total_seconds() for at in begun if at] == [2, 10, 41, 3640, 3644]
    assert (record.tier, record.steps_trained, record.kind) == ("spot", 3600, EndKind.COMPLETED)
    assert status.ledger.spent == Decimal("1.0117"), "an hour and 42 s, from the node to the end of the pod"


# Breaks if work that an interruption takes is not done again, or more than was not saved.
def test_a_node_that_goes_without_notice_takes_the_steps_since_the_last_commit() -> None:
    world = replay(job(), Schedule([spot(up(0, 11.5)), DEDICATED], every=60), BOTH)
    lost, rest = trained(world.status)
    assert (lost.reason, lost.last_step, lost.steps_lost) == ("NodeGone", 650, 50)
    assert (rest.tier, rest.resumed_step, rest.first_step) == ("dedicated", 600, 601)
    assert world.interruptions == 1
    assert billed(world) == pytest.approx(world.status.ledger.spent, abs=Decimal("0.0001"))


# Breaks if a notice is not acted on: nothing is lost, and the next attempt comes up beside the one that leaves.
def test_with_a_notice_nothing_is_lost_and_the_next_attempt_waits_at_the_fence() -> None:
    world = replay(job(), Schedule([spot(up(0, 12, notice=120)), DEDICATED], every=60), BOTH)
    left, rest = trained(world.status)
    assert (left.kind, left.reason, left.steps_lost) == (EndKind.INTERRUPTION, "SpotInterruption", 0)
    assert rest.resumed_step == left.last_step
    assert rest.started_at is not None and rest.started_at < left.ended_at < BEGIN + 12 * MINUTE
    assert left.recovery is not None and left.recovery.restore + left.recovery.notice < 20 * SECOND
    assert billed(world) == pytest.approx(world.status.ledger.spent, abs=Decimal("0.0001"))


def test_a_notice_too_short_for_the_save_is_an_interruption_to_the_last_commit() -> None:
    slow = {**BOTH, "spot": replace(TOOK, save=50 * SECOND)}
    status = replay(job(), Schedule([spot(up(0, 12, notice=20)), DEDICATED], every=60), slow).status
    lost, rest = trained(status)
    assert lost.last_step is not None and rest.resumed_step is not None
    assert lost.steps_lost == lost.last_step - rest.resumed_step > 0


# Breaks if a better tier that comes back is not used, or if it is not watched by a pending pod.
@pytest.mark.parametrize(("policy", "back"), [("Eager", True), ("Slack", True), ("Never", False)])
def test_the_job_goes_back_as_its_return_policy_says(policy: str, back: bool) -> None:
    schedule = Schedule([spot(up(0, 10), up(30)), DEDICATED])
    world = replay(job(4 * 3600, returnPolicy=policy), schedule, BOTH)
    tiers = [record.tier for record in trained(world.status)]
    assert tiers == ["spot", "dedicated", *(["spot"] if back else [])]
    returned = [record for record in world.status.history if record.reason == "Returning"]
    assert bool(returned) is back
    if back:
        assert returned[0].steps_lost == 0
    assert billed(world) == pytest.approx(world.status.ledger.spent, abs=Decimal("0.001"))


def test_an_autoscaler_brings_a_node_when_a_pod_asks_and_takes_it_away_when_it_is_idle() -> None:
    node = Node("spot", "s", (up(0, 10), up(30)), stands=False, linger=5 * MINUTE)
    world = replay(job(2 * 3600), Schedule([node, DEDICATED]), BOTH)
    known = next(one for one in world.status.tiers if one.tier == "spot")
    assert known.observation == "Billed"
    assert world.status.phase is Phase.COMPLETED


# Breaks if the deadline is not kept although Spot goes at the worst times.
@pytest.mark.parametrize("out", [11, 17, 23, 50])
def test_deadline_is_kept(out: int) -> None:
    nodes = [spot(*(up(start, start + out) for start in range(0, 600, out + 7))), DEDICATED]
    given = job(3 * 3600, policy="Deadline", deadline="2026-01-01T03:40:00Z")
    status = replay(given, Schedule(nodes, every=60), BOTH).status
    assert status.phase is Phase.COMPLETED and status.finished_at is not None
    assert status.finished_at <= BEGIN + 220 * MINUTE


class Stored(World):
    """Every status goes through the API server."""

    def _store(self, status: TrainingJobStatus) -> None:
        assert merge_patch(status, TrainingJobStatus.model_validate(status.to_object())) == {}
        super()._store(TrainingJobStatus.model_validate(status.to_object()))


# Breaks if the world keeps in memory what an operator would have to read back.
def test_nothing_is_remembered_outside_status(monkeypatch: pytest.MonkeyPatch) -> None:
    given, schedule = job(4 * 3600), Schedule([spot(up(0, 10, notice=60), up(30, 41.3), up(50)), DEDICATED], every=60)
    before = replay(given, schedule, BOTH).status
    monkeypatch.setattr("holdfast_cli.simulate.replay.World", Stored)
    assert merge_patch(before, replay(given, schedule, BOTH).status) == {}


def test_the_same_again_is_the_same() -> None:
    schedule = Schedule([spot(up(0, 10, notice=60), up(30, 41.3), up(50)), DEDICATED], every=60)
    assert replay(job(), schedule, BOTH).status == replay(job(), schedule, BOTH).status


@pytest.mark.parametrize(
    ("steps", "schedule", "durations", "words"),
    [
        (None, Schedule([DEDICATED]), BOTH, "spec.goal.steps: must be set"),
        (60, Schedule([Node("tpu", "t")]), BOTH, "nodes: no tier is named tpu; known tiers: spot, dedicated"),
        (60, Schedule([DEDICATED]), {"tpu": TOOK}, "durations: no tier is named tpu"),
        (60, Schedule([DEDICATED]), {"spot": TOOK}, "durations: tier dedicated has nodes and needs durations"),
        (60, Schedule([spot(up(0, 1))], limit=60 * MINUTE), BOTH, "the job is not over after 1:00:00"),
    ],
)
def test_a_job_that_cannot_be_replayed_is_refused(
    steps: int | None, schedule: Schedule, durations: dict[str, Durations], words: str
) -> None:
    with pytest.raises(SimulationError) as refused:
        replay(job(steps), schedule, durations)
    assert words in str(refused.value)


def test_invalid_durations_and_spells_are_refused() -> None:
    with pytest.raises(ValueError, match="pace above 0"):
        Durations(pace=timedelta(0))
    with pytest.raises(ValueError, match="end after its start"):
        Spell(MINUTE, MINUTE)
