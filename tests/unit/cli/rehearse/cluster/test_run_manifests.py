"""The job of one run of a rehearsal: what is changed in a manifest, and what is refused."""

from copy import deepcopy
from typing import Any

import pytest
from tests.unit.cli.probe.test_manifests import RAW, SPOT

from holdfast.api.names import LABEL_REHEARSAL_OF
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.cluster.manifests import OnTier, check, make_run
from holdfast_cli.rehearse.cluster.script import wrapping


def on_tier(changes: dict[str, Any] | None = None, trainer: dict[str, Any] | None = None, **more: Any) -> OnTier:
    raw = deepcopy(RAW)
    raw["spec"]["checkpoint"] |= changes or {}
    raw["spec"]["trainer"] |= trainer or {}
    return OnTier(raw, TrainingJob.parse(raw), SPOT, ProfileTier.model_validate(SPOT), **more)


# Breaks if a rehearsal writes where the job writes, goes to another tier, or loses a commit before it was looked at.
def test_a_run_is_the_job_on_one_tier() -> None:
    meta, spec = (make_run(on_tier(), 2)[part] for part in ("metadata", "spec"))
    assert (meta["name"], meta["labels"]) == ("vit-rehearsal-2", {"team": "a", LABEL_REHEARSAL_OF: "vit"})
    assert spec["capacity"]["tiers"] == [SPOT]
    assert spec["checkpoint"]["storage"]["s3"]["prefix"] == "team/vit/rehearsals/vit-rehearsal-2"
    assert spec["checkpoint"]["keep"] == {"last": 10}
    assert (spec["trainer"]["command"], spec["failure"]["maxFailures"]) == (["train"], 0)
    assert (spec["activeDeadline"], spec["ttlAfterFinished"]) == ("1h2m", "1m")
    assert spec["goal"] == RAW["spec"]["goal"]


def test_a_kept_run_stays_and_steps_are_those_of_the_command() -> None:
    spec = make_run(on_tier(keep=True, steps=100, every=20), 1)["spec"]
    assert "ttlAfterFinished" not in spec
    assert (spec["goal"]["steps"], spec["checkpoint"]["every"]) == (100, "20 steps")


# Breaks if the program gets other arguments than in the job.
def test_the_wrapper_comes_before_the_command() -> None:
    asked = on_tier(trainer={"command": ["torchrun", "train.py"], "args": ["--lr", "1"]})
    trainer = make_run(asked, 2, wrapping("/outputs", {2: {"saves": 1}}))["spec"]["trainer"]
    assert trainer["command"][:3] == ["python3", "-I", "-c"]
    assert trainer["args"] == ["torchrun", "train.py", "--lr", "1"]


# Breaks if a rehearsal writes into the files of the job.
def test_a_folder_in_a_claim_is_refused() -> None:
    claim = {"name": "out", "mountPath": "/outputs", "persistentVolumeClaim": {"claimName": "mine"}}
    with pytest.raises(CliError, match="in the claim mine, whose files a rehearsal would find and change"):
        check(on_tier({"folder": "/outputs/run"}, {"volumes": [claim]}))
    check(on_tier({"folder": "/elsewhere"}, {"volumes": [claim]}))
    check(on_tier())


def test_a_job_without_a_command_is_refused() -> None:
    with pytest.raises(CliError, match=r"spec\.trainer\.command is empty"):
        check(on_tier(trainer={"command": []}))


def test_a_prefix_that_becomes_too_long_is_said() -> None:
    storage = {"storage": {"s3": {"bucket": "runs", "prefix": "p" * 510}}}
    with pytest.raises(CliError, match="run 1 of the rehearsal cannot be made"):
        make_run(on_tier(storage), 1)
