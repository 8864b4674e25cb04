"""The TrainingJob that `holdfast run` makes of what is wanted."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.api.review import review
from holdfast_cli.errors import CliError
from holdfast_cli.run.manifest import manifest
from holdfast_cli.run.wanted import Wanted, layered

HASH = "ab" * 32
NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
S3 = {"bucket": "runs", "prefix": "team", "credentialsSecret": "keys"}
LEAST = {"name": "train-x", "image": "registry.example/train:1", "profile": "gpus", "storage": {"s3": S3}}


def made(**said: Any) -> dict[str, Any]:
    wanted = Wanted.model_validate({**LEAST, **said})
    return manifest(wanted, namespace="team", command=["python", "train.py"], code=HASH, now=NOW)


# Breaks if the job of a run is not one that the API server takes.
def test_the_least_that_is_needed() -> None:
    found = made()
    assert review(found) == ()
    assert found["spec"]["trainer"] == {
        "image": "registry.example/train:1",
        "command": ["python", "train.py"],
        "code": {"sha256": HASH},
    }
    assert found["spec"]["checkpoint"]["storage"]["s3"]["prefix"] == "team/team/train-x"
    assert found["metadata"] == {"name": "train-x", "namespace": "team"}


# Breaks if an option is lost on its way into the job.
@pytest.mark.parametrize(
    ("said", "path", "value"),
    [
        ({"nodes": 4}, "trainer.nodes", 4),
        ({"gpus": 0}, "trainer.acceleratorsPerNode", 0),
        ({"cpu": "16", "memory": "120Gi"}, "trainer.resources", {"cpu": "16", "memory": "120Gi"}),
        ({"env": {"A": "1", "B": ""}}, "trainer.env", [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]),
        ({"secrets": ["wandb"]}, "trainer.envFrom", [{"secretRef": {"name": "wandb"}}]),
        ({"data": {"/data": "s3://sets/faces"}}, "trainer.data", [{"from": "s3://sets/faces", "to": "/data"}]),
        ({"deadline": "3d"}, "capacity.deadline", "2026-12-01T12:00:00Z"),
        ({"deadline": "2027-01-31T00:00:00Z"}, "capacity.deadline", "2027-01-31T00:00:00Z"),
        ({"budget": "50"}, "capacity.budget", "50"),
        ({"every": "500 steps"}, "checkpoint.every", "500 steps"),
        ({"every": "10m"}, "checkpoint.every", "10m"),
        ({"folder": "outputs"}, "checkpoint.folder", "/code/outputs"),
        ({"folder": "./outputs/"}, "checkpoint.folder", "/code/outputs"),
        ({"folder": "/outputs"}, "checkpoint.folder", "/outputs"),
        ({"folder": "a/../outputs"}, "checkpoint.folder", "/code/outputs"),
        ({"steps": 900}, "goal.steps", 900),
        ({"progress": ["step {step}"]}, "progress.patterns", ["step {step}"]),
    ],
)
def test_each_field(said: dict[str, Any], path: str, value: Any) -> None:
    job = made(**said)
    assert review(job) == ()
    found = job["spec"]
    for part in path.split("."):
        found = found[part]
    assert found == value


# Breaks if a person is not told what is missing, or the job is made without it.
@pytest.mark.parametrize(("field", "words"), [("image", "--image"), ("profile", "--profile"), ("storage", "--storage")])
def test_what_is_missing(field: str, words: str) -> None:
    with pytest.raises(CliError, match="is missing") as caught:
        made(**{field: None})
    assert words in str(caught.value.hint)


# Breaks if the saves of a program are its own read-only files, which no start could put back.
@pytest.mark.parametrize("folder", [".", "./", "/code", "/code/", "outputs/.."])
def test_the_folder_of_the_program_is_no_place_for_saves(folder: str) -> None:
    with pytest.raises(CliError, match="read-only") as caught:
        made(folder=folder)
    assert "--folder outputs" in caught.value.hint


def test_a_claim_cannot_take_the_code() -> None:
    with pytest.raises(CliError, match="only pods can mount"):
        made(storage={"volumeClaim": {"name": "runs", "path": "team"}})


# Breaks if a file of the person wins over the folder's, or if variables of a lower layer are lost.
def test_layers() -> None:
    typed = Wanted.model_validate({"nodes": 2, "env": {"A": "typed"}})
    folder = Wanted.model_validate({"nodes": 8, "image": "of-folder", "env": {"A": "folder", "B": "folder"}})
    person = Wanted.model_validate({"image": "of-person", "memory": "9Gi"})
    found = layered(typed, folder, person)
    assert (found.nodes, found.image, found.memory) == (2, "of-folder", "9Gi")
    assert found.env == {"A": "typed", "B": "folder"}
    assert found.cpu is None
