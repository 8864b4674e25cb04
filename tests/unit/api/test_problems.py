"""pydantic's errors in our words."""

import pytest

from holdfast.api.errors import SpecError
from holdfast.api.objects import TrainingJob
from holdfast.api.problems import path


def test_paths_are_those_of_kubectl() -> None:
    assert path(("spec", "env", 3, "name")) == "spec.env[3].name"
    assert path(()) == ""


def test_each_kind_of_mistake_has_words() -> None:
    with pytest.raises(SpecError) as caught:
        TrainingJob.parse(
            {
                "kind": "Job",
                "metadata": {"name": 3},
                "spec": {
                    "trainer": {"image": "x", "command": "a", "acceleratorsPerNode": 1.5, "args": ["x"] * 257},
                    "capacity": [],
                    "checkpoint": {"storage": {"s3": {"bucket": "runs"}}, "keep": {"last": 1001}},
                    "suspend": 1,
                    "goal": {"steps": 0},
                    "failure": {
                        "rules": [{"exitCodes": ["42"], "action": "Fail"}, {"exitCodes": [], "action": "Fail"}],
                        "stallTimeout": False,  # as YAML reads Off
                    },
                },
            }
        )
    assert [problem.line for problem in caught.value.problems] == [
        "metadata.name: 3: must be a string",
        "kind: \"Job\": must be 'TrainingJob'",
        'spec.trainer.command: "a": must be a list',
        "spec.trainer.args: 257 items: must have at most 256 items",
        "spec.trainer.acceleratorsPerNode: 1.5: must be a whole number",
        "spec.capacity: []: must be an object",
        "spec.checkpoint.storage.s3.prefix: required",
        "spec.checkpoint.keep.last: 1001: must be at most 1000",
        "spec.goal.steps: 0: must be at least 1",
        'spec.failure.rules[0].exitCodes[0]: "42": must be a whole number',
        "spec.failure.rules[1].exitCodes: 0 items: must have at least 1 items",
        'spec.failure.stallTimeout: False: must be Auto, "Off" in quotes (YAML reads Off as false), or a duration from '
        "10s to 7d, as 20m",
        "spec.suspend: 1: must be true or false",
    ]
