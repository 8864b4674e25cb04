"""The pod's environment, read strictly: a typing error must not become a default."""

import pytest
from tests.support.trainer import environment, variables

from holdfast_train.environment import Environment, Every, parse_every, parse_seconds
from holdfast_train.errors import EnvironmentVariableError


def test_outside_a_pod() -> None:
    assert Environment.read({}) is None
    assert Environment.read({"HOLDFAST_JOB": ""}) is None


def test_all_of_it() -> None:
    found = environment(
        "s3://b/p",
        3,
        HOLDFAST_CHECKPOINT_EVERY="500 steps",
        HOLDFAST_CHECKPOINT_KEEP_LAST="5",
        HOLDFAST_CHECKPOINT_KEEP_EVERY="24h",
        HOLDFAST_GOAL_STEPS="1000",
        HOLDFAST_PREDECESSOR="2",
        HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY="hidden",
    )
    assert (found.identity.attempt, found.every, found.keep_last, found.keep_every) == (3, Every(steps=500), 5, 86400.0)
    assert (found.goal_steps, found.resume, found.grace) == (1000, "Auto", 20.0)
    assert (found.predecessor, environment("s3://b/p", 3).predecessor) == (2, None)
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_ATTEMPT", "0"),
        ("HOLDFAST_ATTEMPT", "one"),
        ("HOLDFAST_GRACE_SECONDS", "1m"),
        ("HOLDFAST_CHECKPOINT_EVERY", "0 steps"),
        ("HOLDFAST_CHECKPOINT_EVERY", "10"),
        ("HOLDFAST_CHECKPOINT_EVERY", "0s"),
        ("HOLDFAST_CHECKPOINT_KEEP_LAST", "0"),
        ("HOLDFAST_CHECKPOINT_KEEP_EVERY", "daily"),
        ("HOLDFAST_GOAL_STEPS", "-1"),
        ("HOLDFAST_PREDECESSOR", "0"),
        ("HOLDFAST_PREDECESSOR", "yes"),
        ("HOLDFAST_JOB_UID", ""),
    ],
)
def test_wrong_values_are_named(name: str, value: str) -> None:
    with pytest.raises(EnvironmentVariableError, match=name):
        Environment.read(variables("file:///x") | {name: value})


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1d", 86400), ("250ms", 0.25)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text, "X") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("500 steps", Every(steps=500)),
        ("1 step", Every(steps=1)),
        ("10m", Every(seconds=600.0)),
        ("auto", Every(seconds=600.0)),
    ],
)
def test_every(text: str, every: Every) -> None:
    assert parse_every(text, "X") == every
