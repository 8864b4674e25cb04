"""When the demo takes a node."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import parse_time
from holdfast_local.demo.script import Script, Struck
from holdfast_local.demo.stories import GANG, ONE_NODE, Blow, Scene

TIERS = {
    tier: {"name": tier, "kind": kind} for tier, kind in (("spot", "Spot"), ("dedicated", "Dedicated"), ("cpu", "CPU"))
}


def job(*, attempt: int = 1, tier: str = "spot", first: int | None = 0, step: int = 90, saved: int | None = 80,
        state: str = "Running", **changes: Any) -> TrainingJob:  # fmt: skip
    current: dict[str, Any] = {
        **RUNNING["current"], "number": attempt, "tier": TIERS[tier], "state": state, "firstStep": first,
        "pods": [{"rank": 0, "node": f"{tier}-1"}], **changes,
    }  # fmt: skip
    checkpoint = None if saved is None else {**RUNNING["checkpoint"], "step": saved}
    return running_job({"current": current, "checkpoint": checkpoint, "progress": {"step": step}})


def due(script: Script, job: TrainingJob) -> Struck | None:
    assert job.status.current is not None
    return script.due(job, {pod.rank: pod.node for pod in job.status.current.pods if pod.node})


def test_a_node_is_taken_once_its_attempt_has_trained_and_saved() -> None:
    struck = due(Script(), job())
    assert struck is not None
    assert (struck.attempt, struck.node, struck.step, struck.saved) == (1, "spot-1", 90, 80)
    assert struck.scene.blow is Blow.RECLAIM


# Breaks if the demo would strike an attempt that has nothing of its own to lose: it would show nothing.
@pytest.mark.parametrize(
    "early",
    [
        job(saved=None),
        job(first=None),
        job(first=80, saved=80, step=170),
        job(first=45, step=124),
        job(state="Starting"),
        job(state="Draining"),
        job(tier="dedicated"),
    ],
    ids=["no save", "no step of its own", "no save of its own", "few steps", "starting", "draining", "other tier"],
)
def test_not_before(early: TrainingJob) -> None:
    assert due(Script(), early) is None


def test_no_attempt_is_struck_twice() -> None:
    script = Script()
    struck = due(script, job())
    assert struck is not None
    script.record(struck)
    assert due(script, job(step=190, saved=180)) is None
    assert due(script, job(attempt=2, first=90, step=190, saved=180)) is not None


def test_a_crash_waits_for_steps_that_are_not_saved() -> None:
    script = Script(scenes=(Scene(Blow.CRASH, "dedicated", "", ""),))
    assert due(script, job(tier="dedicated", step=90, saved=90)) is None
    assert due(script, job(tier="dedicated", step=91, saved=90)) is not None


def test_after_the_last_scene_nothing_is_due() -> None:
    script = Script(played=[Struck(scene, n, "n", 0, 0) for n, scene in enumerate(ONE_NODE.scenes)])
    assert script.next_scene is None
    assert due(script, job(attempt=9)) is None


# Breaks if the demo moves the deadline where it should not, or so that no slack, or all of it, is left.
def test_the_second_interruption_moves_the_deadline_to_two_minutes_after_the_work_would_be_done() -> None:
    now = parse_time("2026-11-21T09:00:00Z")
    at_a_tenth_of_a_second = {
        "progressAt": "2026-11-21T08:59:51Z",
        "lastStepAt": "2026-11-21T09:00:00Z",
        "lastStep": 90,
    }
    trains = job(**at_a_tenth_of_a_second)
    first, second, third = (Struck(scene, 1, "n", 90, 80) for scene in ONE_NODE.scenes)
    steps = trains.spec.goal.steps
    assert steps is not None
    deadline = Script().deadline(second, trains, now)
    assert deadline == now + timedelta(seconds=(steps - 90) / 10, minutes=2)
    assert [Script().deadline(struck, trains, now) for struck in (first, third)] == [None, None]


def test_with_several_nodes_the_node_of_the_rank_is_taken() -> None:
    first, second = GANG.scenes
    struck = Script(GANG.scenes).due(job(), {rank: f"spot-{rank + 1}" for rank in range(4)})
    assert struck == Struck(first, 1, "spot-4", 90, 80)
    script = Script(GANG.scenes, played=[struck])
    assert script.due(job(attempt=2, first=90, step=190, saved=180), {0: "spot-1", 1: "spot-2"}) is None
    struck = script.due(job(attempt=2, first=90, step=190, saved=180), {2: "spot-3"})
    assert struck == Struck(second, 2, "spot-3", 190, 180)
