"""The pod's environment, read strictly: a typing error must not become a default."""

import pytest
from tests.support.trainer.stores import environment, variables

from holdfast_train.environment import Credentials, Environment, Every, parse_every, parse_seconds
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


def test_keys_of_the_storage() -> None:
    keys = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "SESSION_TOKEN": "c", "KEYS_DIR": "/holdfast/keys"}
    found = environment("s3://b/p", **{f"HOLDFAST_CHECKPOINT_{name}": value for name, value in keys.items()})
    assert found.credentials == Credentials("a", "b", "c", "/holdfast/keys")
    assert found.credentials.values == ("a", "b", "c")
    assert environment("s3://b/p", HOLDFAST_CHECKPOINT_SESSION_TOKEN="").credentials == Credentials()


def test_when_to_save() -> None:
    found = environment(
        "s3://b/p",
        HOLDFAST_CHECKPOINT_EVERY="auto",
        HOLDFAST_CHECKPOINT_MAX_LOSS="15m",
        HOLDFAST_SECONDS_BETWEEN_LOSSES="7200",
    )
    assert found.every == Every(auto=True, between_interruptions=7200.0, max_lost_work=900.0)
    assert environment("s3://b/p").every == Every(steps=1000000)
    assert environment("s3://b/p", HOLDFAST_CHECKPOINT_EVERY="").every == Every(auto=True)


def test_what_to_keep() -> None:
    best = {"HOLDFAST_CHECKPOINT_KEEP_BEST": "2", "HOLDFAST_CHECKPOINT_KEEP_METRIC": "accuracy"}
    found = environment("s3://b/p", **best, HOLDFAST_CHECKPOINT_KEEP_MODE="Max")
    assert (found.keep_best, found.keep_metric, found.keep_mode) == (2, "accuracy", "Max")
    found = environment("s3://b/p")
    assert (found.keep_last, found.keep_best, found.keep_metric, found.keep_mode) == (3, 0, None, "Min")


def test_the_ranks_of_a_pod_share_its_rate() -> None:
    rate = {"HOLDFAST_CHECKPOINT_UPLOAD_RATE": "300000000"}
    assert environment("s3://b/p").upload_rate is None
    assert environment("s3://b/p", **rate).upload_rate == 3e8
    assert environment("s3://b/p", **rate, LOCAL_WORLD_SIZE="4").upload_rate == 7.5e7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_CHECKPOINT_PEERS", "yes"),
        ("HOLDFAST_CHECKPOINT_RESUME_ONLY", "model"),  # without an address
        ("HOLDFAST_CHECKPOINT_RESUME_ONLY", "model,,ema"),
        ("HOLDFAST_CHECKPOINT_UPLOAD_RATE", "300M"),
        ("HOLDFAST_CHECKPOINT_UPLOAD_RATE", "0"),
        ("HOLDFAST_ATTEMPT", "0"),
        ("HOLDFAST_ATTEMPT", "one"),
        ("HOLDFAST_GRACE_SECONDS", "1m"),
        ("HOLDFAST_CHECKPOINT_EVERY", "0 steps"),
        ("HOLDFAST_CHECKPOINT_EVERY", "10"),
        ("HOLDFAST_CHECKPOINT_EVERY", "0s"),
        ("HOLDFAST_CHECKPOINT_KEEP_LAST", "0"),
        ("HOLDFAST_CHECKPOINT_KEEP_EVERY", "daily"),
        ("HOLDFAST_CHECKPOINT_KEEP_BEST", "0"),
        ("HOLDFAST_CHECKPOINT_KEEP_METRIC", ""),
        ("HOLDFAST_CHECKPOINT_KEEP_MODE", "min"),
        ("HOLDFAST_CHECKPOINT_MAX_LOSS", "0s"),
        ("HOLDFAST_CHECKPOINT_MAX_LOSS", "600"),
        ("HOLDFAST_SECONDS_BETWEEN_LOSSES", "0"),
        ("HOLDFAST_SECONDS_BETWEEN_LOSSES", "2h"),
        ("HOLDFAST_GOAL_STEPS", "-1"),
        ("HOLDFAST_SPIKE", "10"),
        ("HOLDFAST_SPIKE", "10 deviations, 0 steps, window 200"),
        ("HOLDFAST_SLOW_WINDOW", "5m"),
        ("HOLDFAST_PREDECESSOR", "0"),
        ("HOLDFAST_PREDECESSOR", "yes"),
        ("HOLDFAST_JOB_UID", ""),
    ],
)
def test_wrong_values_are_named(name: str, value: str) -> None:
    good = variables("file:///x", HOLDFAST_CHECKPOINT_KEEP_BEST="1", HOLDFAST_CHECKPOINT_KEEP_METRIC="loss")
    assert Environment.read(good) is not None
    with pytest.raises(EnvironmentVariableError, match=f"^{name} is "):
        Environment.read(good | {name: value})


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
        ("auto", Every(auto=True)),
    ],
)
def test_every(text: str, every: Every) -> None:
    assert parse_every(text, "X") == every
