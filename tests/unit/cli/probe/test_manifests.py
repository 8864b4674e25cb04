"""The jobs of a probe: what is changed in a manifest, and what is not."""

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from holdfast.api.names import API_VERSION, JOB_KIND, LABEL_PROBE_OF
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast_cli.errors import CliError
from holdfast_cli.probe.manifests import PROBES, Limits, Probe, make_probes
from holdfast_cli.trial_jobs.manifests import left_out, may_be_name, with_storage_of_all

SPOT = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "1"}
CPU = {"name": "cpu", "kind": "CPU"}
LIMITS = Limits(60, timedelta(minutes=2), timedelta(minutes=30))
RAW: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": JOB_KIND,
    "metadata": {
        "name": "vit",
        "namespace": "vision",
        "labels": {"team": "a"},
        "annotations": {"note": "x", "holdfast.dev/move-requested": "1", "kubectl.kubernetes.io/last-applied": "{}"},
    },
    "spec": {
        "trainer": {"image": "train:1", "command": ["train"], "tracking": {"wandb": True}, "acceleratorsPerNode": 2},
        "capacity": {"tiers": [SPOT, CPU], "policy": "Cheapest", "budget": "5", "deadline": "2099-01-01T00:00:00Z"},
        "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "team/vit"}}, "every": "5m"},
        "goal": {"steps": 40_000},
        "failure": {"maxFailures": 9, "window": "2h"},
        "suspend": True,
        "ttlAfterFinished": "7d",
    },
}


def changed(**spec: Any) -> dict[str, Any]:
    raw = deepcopy(RAW)
    raw["spec"] |= spec
    return raw


def make(raw: dict[str, Any] = RAW, *accelerators: int, keep: bool = False, **limits: Any) -> list[Probe]:
    tiers = [(tier, ProfileTier.model_validate(tier)) for tier in raw["spec"]["capacity"]["tiers"]]
    return make_probes(raw, tiers, accelerators, Limits(**limits) if limits else LIMITS, keep=keep)


# Breaks if a probe writes where the job writes, has a budget (a suspended job never ends), retries, or never ends.
def test_a_probe_is_the_job_on_one_tier_with_an_end_and_a_prefix_of_its_own() -> None:
    before = deepcopy(RAW)
    spot, cpu = make()
    assert before == RAW
    assert [spot.name, cpu.name] == ["vit-probe-spot", "vit-probe-cpu"]
    assert spot.manifest == {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {
            "name": "vit-probe-spot",
            "labels": {"team": "a", LABEL_PROBE_OF: "vit"},
            "annotations": {"note": "x"},
        },
        "spec": {
            "trainer": {"image": "train:1", "command": ["train"], "acceleratorsPerNode": 2},
            "capacity": {"tiers": [SPOT], "policy": "Ordered", "returnPolicy": "Never", "maxOverlap": "0s"},
            "checkpoint": {
                "storage": {"s3": {"bucket": "runs", "prefix": "team/vit/probes/vit-probe-spot"}},
                "every": "5m",
                "resume": "Never",
            },
            "goal": {"steps": 60},
            "failure": {"maxFailures": 0, "window": "2h"},
            "activeDeadline": "32m",
            "ttlAfterFinished": "1m",
        },
    }
    assert (spot.accelerators, cpu.accelerators) == (2, 0)


def test_a_kept_probe_is_not_deleted_by_the_operator() -> None:
    for one in make(keep=True):
        assert "ttlAfterFinished" not in one.manifest["spec"]
        assert one.manifest["spec"]["activeDeadline"] == "32m"


def test_the_shortest_deadline_is_one_that_the_api_takes() -> None:
    second = timedelta(seconds=1)
    (spot, _) = make(steps=12, acquire=second, run=second)
    assert spot.manifest["spec"]["activeDeadline"] == "1m"


# Breaks if a probe starts at a step of the job's own checkpoint, where it has nothing left to do.
@pytest.mark.parametrize(
    ("resume", "wanted"),
    [
        ("Auto", "Never"),
        ("s3://runs/team/vit/000000000100-2", "Never"),
        ({"from": "s3://b/p/000000000100-2", "only": ["model"]},) * 2,
    ],
    ids=["auto", "address", "warm"],
)
def test_a_probe_starts_at_step_0(resume: Any, wanted: Any) -> None:
    (spot, _) = make(changed(checkpoint={**RAW["spec"]["checkpoint"], "resume": resume}))
    assert spot.manifest["spec"]["checkpoint"]["resume"] == wanted


def test_numbers_of_accelerators_are_compared_on_tiers_that_have_some() -> None:
    found = make(RAW, 1, 2)
    assert [(one.name, one.accelerators) for one in found] == [
        ("vit-probe-spot-x1", 1),
        ("vit-probe-spot", 2),
        ("vit-probe-cpu", 0),
    ]
    one, own, cpu = (probe.manifest["spec"]["capacity"]["tiers"][0] for probe in found)
    assert (one["acceleratorsPerNode"], own, cpu) == (1, SPOT, CPU)
    prefixes = [probe.manifest["spec"]["checkpoint"]["storage"]["s3"]["prefix"] for probe in found]
    assert prefixes == [
        "team/vit/probes/vit-probe-spot-x1",
        "team/vit/probes/vit-probe-spot",
        "team/vit/probes/vit-probe-cpu",
    ]


# Breaks if two probes get one name, or one that the API server refuses.
def test_names_are_short_and_differ() -> None:
    raw = changed(capacity={"tiers": [{**SPOT, "name": f"a-very-long-name-of-a-tier-{n}"} for n in range(3)]})
    raw["metadata"]["name"] = "a-name-of-forty-characters-is-the-longes"
    names = [one.name for one in make(raw)]
    assert len(set(names)) == 3
    assert all(len(name) <= 40 and "-probe-" in name for name in names)
    alike = changed(capacity={"tiers": [SPOT, {**SPOT, "name": "spot-x1"}]})
    found = make(alike, 1, 2)
    assert len({one.name for one in found}) == 4
    assert len({one.manifest["spec"]["checkpoint"]["storage"]["s3"]["prefix"] for one in found}) == 4


def test_a_tier_of_a_profile_comes_without_what_only_the_platform_may_set() -> None:
    tier = {**SPOT, "runtimeClassName": "nvidia", "extraResources": {"rdma/hca": "1"}}
    (probe,) = make_probes(RAW, [(tier, ProfileTier.model_validate(tier))], (), LIMITS)
    assert probe.manifest["spec"]["capacity"]["tiers"] == [SPOT]
    assert left_out(tier) == ["extraResources", "runtimeClassName"]
    assert left_out(SPOT) == []


# Breaks if what is deleted in the end is the job's own prefix.
def test_all_probes_store_below_one_folder() -> None:
    assert with_storage_of_all(PROBES, RAW, "vision")["spec"]["checkpoint"]["storage"] == {
        "s3": {"bucket": "runs", "prefix": "team/vit/probes"}
    }
    claim = changed(checkpoint={"storage": {"volumeClaim": {"name": "data", "path": "vit"}}})
    found = TrainingJob.parse(with_storage_of_all(PROBES, claim, "vision")).spec.checkpoint.storage.volume_claim
    assert found is not None
    assert found.path == "vit/probes"


def test_a_prefix_that_becomes_too_long_is_said() -> None:
    raw = changed(checkpoint={"storage": {"s3": {"bucket": "runs", "prefix": "p" * 510}}})
    with pytest.raises(CliError, match=r"probe of tier spot cannot be made: spec\.checkpoint\.storage\.s3\.prefix"):
        make(raw)


# Breaks if the keys of the storage are looked for in no namespace: nothing that probes stored would be removed.
def test_a_file_without_a_namespace() -> None:
    meta = {key: value for key, value in RAW["metadata"].items() if key != "namespace"}
    assert with_storage_of_all(PROBES, {**RAW, "metadata": meta}, "default")["metadata"]["namespace"] == "default"
    assert RAW["metadata"]["namespace"] == "vision"


# Breaks if what a probe stored stays, or if another job's prefix below probes/ is taken for that of a probe.
@pytest.mark.parametrize("name", ["vit", "a-very-long-name-of-a-job-of-forty-chars"])
def test_names_of_probes_are_known_again(name: str) -> None:
    raw = {**RAW, "metadata": {**RAW["metadata"], "name": name}}
    assert all(may_be_name(PROBES, probe.name, name) for probe in make(raw, 1, 2))
    assert not any(may_be_name(PROBES, other, name) for other in (name, "manifests", "other-probe-spot", "probe-study"))
