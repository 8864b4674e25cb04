"""Sums over all jobs, and series of profiles."""

from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from tests.support.decisions.snapshots import profile
from tests.support.operator.fake_api_server import T0, raw_job

from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import CapacityProfileStatus
from holdfast.serve.fleet import Fleet, ProfileCollector

SPOT = {"name": "spot", "kind": "Spot", "pricePerNodeHour": "2"}


def told(collector: Collector) -> list[str]:
    registry = CollectorRegistry()
    registry.register(collector)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def job(name: str, phase: str = "Running", **attempt: Any) -> TrainingJob:
    times = {"raisedAt": "2026-11-21T11:00:00Z", "scheduledAt": "2026-11-21T11:30:00Z"}
    current = {"number": 1, "state": "Running", "tier": SPOT, **times, **attempt}
    return TrainingJob.parse(raw_job(name, f"uid-{name}", phase=phase, current=current))


def render(fleet: Fleet, *jobs: TrainingJob, minutes: int = 0) -> list[str]:
    fleet.begin()
    for one in jobs:
        fleet.add(one, T0 + timedelta(minutes=minutes))
    fleet.end()
    return told(fleet)


def test_jobs_are_counted_by_phase() -> None:
    lines = render(Fleet(), job("a"), job("b"), job("c", "Completed"))
    assert 'holdfast_jobs{job_namespace="ns",phase="Running"} 2.0' in lines
    assert 'holdfast_jobs{job_namespace="ns",phase="Completed"} 1.0' in lines


def test_every_node_of_every_attempt_is_paid_for() -> None:
    lines = render(Fleet(), job("a"), job("b", nodes=4), job("c", scheduledAt=None))
    assert 'holdfast_spend_per_hour{tier_kind="Spot"} 10.0' in lines


def test_the_cost_grows_by_what_is_seen_to_be_spent() -> None:
    """Breaks if a restart of the operator counts the past again, or a deleted job makes the counter fall."""
    fleet = Fleet()
    first = job("a")
    assert 'holdfast_cost_total{tier_kind="Spot"} 0.0' in render(fleet, first)
    assert 'holdfast_cost_total{tier_kind="Spot"} 1.0' in render(fleet, first, minutes=30)
    assert 'holdfast_cost_total{tier_kind="Spot"} 1.0' in render(fleet)


def test_a_cost_that_falls_is_not_counted_again_when_it_grows() -> None:
    fleet, one = Fleet(), job("a")
    render(fleet, one, minutes=30)
    render(fleet, one, minutes=0)  # the end of the attempt was seen late
    assert 'holdfast_cost_total{tier_kind="Spot"} 0.0' in render(fleet, one, minutes=30)


# Breaks if a tier that left the profile stays on screens, or if a tier that was never tried looks as if it were out.
def test_tiers_of_a_profile_of_which_something_is_known() -> None:
    known = [
        TierKnowledge(tier="spot", state=Seen.TOOK_BACK),
        TierKnowledge(tier="dedicated", state=Seen.UP),
        TierKnowledge(tier="cpu"),
        TierKnowledge(tier="gone", state=Seen.UP),
    ]
    seen = profile().model_copy(update={"status": CapacityProfileStatus(tiers=tuple(known))})
    profiles: list[CapacityProfile] = [seen]
    collector = ProfileCollector(lambda: profiles)
    assert told(collector) == [
        'holdfast_profile_tier_up{profile="grid",tier="spot",tier_kind="Spot"} 0.0',
        'holdfast_profile_tier_up{profile="grid",tier="dedicated",tier_kind="Dedicated"} 1.0',
    ]
    profiles.clear()
    assert told(collector) == []
