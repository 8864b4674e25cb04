"""The page of tiers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.manifests.fleet import hero, profile
from tests.support.manifests.observed_jobs import running_job

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast_cli.pages.tiers_page import Learned, Tiers, learned, newest, tiers_page

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


def shown(tiers: Tiers) -> str:
    return "".join(one.html for one in tiers_page(tiers).fragments)


def gpus(**status: Any) -> CapacityProfile:
    raw = profile(NOW)
    raw["status"] |= status
    return CapacityProfile.parse(raw)


# Breaks if any of what the page promises is not on it.
@pytest.mark.parametrize(
    "text",
    ["gpus", "spot-h100", "2.95", "out: took a node back", "up</span> for", "not observed yet", "41", "2m10s", "1m32s",
     "spot-a100-17", "ContainerLost", "only in another namespace"],
)  # fmt: skip
def test_profile(text: str) -> None:
    assert text in shown(Tiers([gpus()], namespace="elsewhere"))


def test_the_job_that_observed_a_tier_last_is_named() -> None:
    """Breaks if a job is named whose observation is older than the state that is shown."""
    lessons = learned(TrainingJob.parse(hero(NOW)))
    assert "demo/vit-faces" in shown(Tiers([gpus()], lessons))
    old = {place: Learned("demo", "old", one.at - timedelta(minutes=1)) for place, one in lessons.items()}
    assert "demo/old" not in shown(Tiers([gpus()], old))
    assert newest([old, lessons]) == newest([lessons, old]) == lessons


def test_a_job_with_its_own_tiers_teaches_no_profile() -> None:
    assert learned(running_job()) == {}


def test_a_node_is_avoided_where_its_faults_count() -> None:
    faults = [{"reason": "NodeSilent", "at": "2026-11-21T09:00:00Z", "namespace": "a", "job": "j", "attempt": 1}]
    assert "last choice" in shown(Tiers([gpus(faultyNodes=[{"node": "n1", "faults": faults}])]))
    assert "avoided</span>" in shown(Tiers([gpus(faultyNodes=[{"node": "n1", "faults": faults * 2}])]))


def test_what_is_not_seen_is_said() -> None:
    assert "not seen (403)" in shown(Tiers([], notes=["not seen (403)"]))
    assert "no CapacityProfile" in shown(Tiers([]))
