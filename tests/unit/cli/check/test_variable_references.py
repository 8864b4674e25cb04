"""References to variables that a pod does not have: Kubernetes leaves them as they are, and says nothing."""

from typing import Any

import pytest
from tests.support.decisions.snapshots import job

from holdfast_cli.check.findings import Report
from holdfast_cli.check.variable_references import check_references
from holdfast_protocol import variables

IMAGE = {"image": "registry.example/train:1", "command": ["x"]}


def warned(value: str, **spec: Any) -> list[str]:
    report = Report("job")
    env = {"env": [{"name": "OUT", "value": value}]}
    check_references(job(**{**spec, "trainer": IMAGE | spec.get("trainer", {}) | env}).spec, report)
    assert {one.field for one in report.findings} <= {"spec.trainer.env[OUT].value"}
    return [one.message for one in report.findings]


SECRET = {"storage": {"s3": {"bucket": "runs", "prefix": "p", "credentialsSecret": "keys"}}}


def test_variables_that_are_there() -> None:
    """Breaks if a job that is right is warned of."""
    each = " ".join(f"$({one.name})" for one in variables.TABLE if one.by != variables.LAUNCHER)
    left = each.replace("$(HOLDFAST_PREDECESSOR)", "").replace("$(HOLDFAST_LAUNCHER_DIR)", "")
    assert warned(left, goal={"steps": 5}, checkpoint=SECRET, trainer={"nodes": 2}) == []
    for text in ("$(HOME)", "$$(HOLDFAST_NO)", "$HOLDFAST_NO", "$(HOLDFAST_NO", "$(holdfast_no)", ""):
        assert warned(text) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HOLDFAST_CHECKPOINT_URI", "no such variable is set; those that are: docs/reference/environment.md"),
        ("HOLDFAST_GRACE_SECONDS", "no such variable is set"),
        ("HOLDFAST_JOBUID", "did you mean HOLDFAST_JOB_UID?"),
        ("HOLDFAST_LAUNCHER_DIR", "no such variable is set"),
        ("HOLDFAST_NEWEST_CHECKPOINT", "the launcher sets it, after Kubernetes has put in the values"),
        ("HOLDFAST_PREDECESSOR", "it is set only in a successor"),
        ("HOLDFAST_GOAL_STEPS", "it is set only with goal.steps"),
        ("HOLDFAST_POD_IP", "it is set only with several nodes"),
        ("HOLDFAST_CHECKPOINT_ACCESS_KEY_ID", "it is set only with checkpoint.storage.s3.credentialsSecret"),
    ],
)
def test_variables_that_are_not_there(name: str, words: str) -> None:
    (found,) = warned(f"a $$ $({name})/b $({name})")
    assert found.startswith(f"$({name}) stays as it is: ")
    assert words in found


# Breaks if only values are looked at: Kubernetes puts variables into the command and its arguments too.
def test_commands_and_arguments() -> None:
    report = Report("job")
    trainer = {
        **IMAGE,
        "command": ["python", "--out=$(HOLDFAST_DATA)"],
        "args": ["$(HOLDFAST_JOB)", "$(HOLDFAST_SPIKE)"],
    }
    check_references(job(trainer=trainer).spec, report)
    assert [one.field for one in report.findings] == ["spec.trainer.command[1]", "spec.trainer.args[1]"]
