"""Whole objects: reading them, and saying what is wrong with them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.support.manifests.bad_manifests import BAD
from tests.support.manifests.good_manifests import GOOD, GOOD_PROFILE, Bad, changed

from holdfast.api import names
from holdfast.api.errors import HoldfastError, SpecError
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.review import review


def test_good_manifests_are_read() -> None:
    job = TrainingJob.parse(GOOD)
    assert (job.metadata.name, job.spec.trainer.resources.cpu) == ("good", "4")
    assert TrainingJob.parse(job.to_object()) == job
    assert [tier.kind for tier in CapacityProfile.parse(GOOD_PROFILE).spec.tiers] == ["Spot", "CPU"]
    assert review(GOOD) == review(GOOD_PROFILE) == ()


def test_kinds_are_spelt_as_everywhere() -> None:
    job, profile = TrainingJob.parse(GOOD), CapacityProfile.parse(GOOD_PROFILE)
    assert (job.api_version, job.kind) == (names.API_VERSION, names.JOB_KIND)
    assert (profile.api_version, profile.kind) == (names.API_VERSION, names.PROFILE_KIND)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_manifests_are_refused_with_field_value_and_what_is_allowed(bad: Bad) -> None:
    text = "\n".join(problem.line for problem in review(bad.manifest()))
    for part in (bad.field, bad.value, bad.offline or bad.allowed):
        assert part in text


def test_every_problem_is_named_at_once() -> None:
    bad = changed(
        GOOD,
        {"spec/trainer/image": "", "spec/checkpoint/every": "often", "spec/goal": {"steps": 0}, "metadata/name": "A"},
    )
    with pytest.raises(SpecError) as caught:
        TrainingJob.parse(bad)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["spec.trainer.image", "spec.checkpoint.every", "spec.goal.steps"]
    assert caught.value.field == "spec.trainer.image"
    assert isinstance(caught.value, HoldfastError)


def test_what_the_next_tier_is_chosen_by() -> None:
    capacity = TrainingJob.parse(GOOD).spec.capacity
    assert (capacity.policy, capacity.return_policy, capacity.max_overlap) == (
        "Ordered",
        "Slack",
        timedelta(minutes=10),
    )
    assert capacity.deadline is capacity.budget is None
    over = {
        "spec/capacity/policy": "Deadline",
        "spec/capacity/deadline": "2020-01-31T01:00:00+01:00",
        "spec/capacity/budget": 5000,
        "spec/capacity/tiers/0/observation": "Billed",
    }
    job = TrainingJob.parse(changed(GOOD, over))
    assert job.spec.capacity.deadline == datetime(2020, 1, 31, tzinfo=UTC)  # it is over; that is said, not refused
    assert job.to_object()["spec"]["capacity"]["deadline"] == "2020-01-31T00:00:00Z"
    assert job.spec.capacity.budget == Decimal(5000)
    assert review(changed(GOOD, over)) == ()


def test_what_is_known_of_tiers_is_read_as_it_was_written() -> None:
    tiers = [
        {
            "tier": "spot", "state": "TookBack", "since": "2026-11-21T09:00:00Z", "seenAt": "2026-11-21T09:00:00Z",
            "observation": "Free", "acquire": {"recent": ["3s", "1m2s"], "worst": "10m"}, "interruptions": 3,
            "nodeTime": "9h",
        }
    ]  # fmt: skip
    written = {
        "up": "",
        "out": "spot",
        "tiers": tiers,
        "counted": [{"tier": "spot", "interruptions": 2, "hours": "7.500001"}],
    }
    profile = CapacityProfile.parse({**GOOD_PROFILE, "status": written})
    assert profile.to_object()["status"] == written
    job = TrainingJob.parse({**GOOD, "status": {"tiers": tiers}})
    assert job.status.tiers == profile.status.tiers


def test_fields_from_the_future_are_ignored_on_reading() -> None:
    newer = changed(GOOD, {"spec/trainer/nodes": 4, "spec/future": {"a": [1]}, "status": {"future": 1, "attempt": 3}})
    assert TrainingJob.parse(newer).status.attempt == 3


# Breaks if the reader refuses a status in which a field has a name that later versions do not have.
def test_a_status_with_a_renamed_field_is_read_with_the_default() -> None:
    older = changed(GOOD, {"status": {"attempt": 3, "tiers": [{"tier": "spot", "interruptions": 2, "had": "9h"}]}})
    (found,) = TrainingJob.parse(older).status.tiers
    assert (found.interruptions, found.node_time) == (2, timedelta(0))


def test_an_object_without_newer_fields_is_read_with_their_defaults() -> None:
    older = {
        "metadata": {"name": "old"},
        "spec": {
            "trainer": {"image": "x"},
            "capacity": {"profile": "default"},
            "checkpoint": {"storage": {"volumeClaim": {"name": "runs", "path": "old"}}},
        },
        "status": {"attempt": 2},
    }
    job = TrainingJob.parse(older)
    assert (job.spec.checkpoint.keep.last, job.spec.failure.max_failures, job.status.restarts.interruptions) == (
        3,
        3,
        0,
    )


@pytest.mark.parametrize("raw", [{}, {"metadata": {}}, {"metadata": [], "spec": None}, {"metadata": {"name": 3}}])
def test_rubbish_is_a_spec_error(raw: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        TrainingJob.parse(raw)


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(SpecError) as caught:
        TrainingJob.parse(changed(GOOD, {"spec/trainer/image": "x " * 9999}))
    assert len(str(caught.value)) < 400
