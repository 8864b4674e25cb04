"""The pod's environment, read strictly: a typing error must not become a default."""

import pytest
from tests.support.trainer.stores import environment, variables

from holdfast_protocol.settings import Every, Keep
from holdfast_train.environment import Credentials, Environment
from holdfast_train.errors import EnvironmentVariableError


def test_outside_a_pod() -> None:
    assert Environment.read({}) is None
    assert Environment.read({"HOLDFAST_JOB": ""}) is None


def test_all_of_it() -> None:
    more = {"HOLDFAST_GOAL_STEPS": "1000", "HOLDFAST_PREDECESSOR": "2", "HOLDFAST_NODES": "2", "HOLDFAST_RANK": "1"}
    hidden = {"HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": "hidden"}
    found = environment("s3://b/p", 3, every=Every(500), keep=Keep(5, 86400.0), **more, **hidden)
    assert (found.identity.attempt, found.settings.every, found.settings.keep) == (3, Every(500), Keep(5, 86400.0))
    assert (found.goal_steps, found.predecessor, found.nodes, found.node_rank) == (1000, 2, 2, 1)
    assert (found.settings.resume, found.settings.grace, found.settings.checkpoint_uri) == ("Auto", 20.0, "s3://b/p")
    assert environment("s3://b/p", 3).predecessor is None
    assert "hidden" not in repr(found)


def test_keys_of_the_storage() -> None:
    keys = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "SESSION_TOKEN": "c"}
    given = {f"HOLDFAST_CHECKPOINT_{name}": value for name, value in keys.items()}
    found = environment("s3://b/p", **given, keys_folder="/holdfast/keys")
    assert found.credentials == Credentials("a", "b", "c", "/holdfast/keys")
    assert found.credentials.values == ("a", "b", "c")
    assert environment("s3://b/p", HOLDFAST_CHECKPOINT_SESSION_TOKEN="").credentials == Credentials()


def test_the_ranks_of_a_pod_share_its_rate() -> None:
    assert environment("s3://b/p").upload_rate is None
    assert environment("s3://b/p", upload_rate=300_000_000).upload_rate == 3e8
    assert environment("s3://b/p", upload_rate=300_000_000, LOCAL_WORLD_SIZE="4").upload_rate == 7.5e7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_ATTEMPT", "0"),
        ("HOLDFAST_ATTEMPT", "one"),
        ("HOLDFAST_GOAL_STEPS", "-1"),
        ("HOLDFAST_PREDECESSOR", "0"),
        ("HOLDFAST_PREDECESSOR", "yes"),
        ("HOLDFAST_JOB_UID", ""),
        ("HOLDFAST_SETTINGS", "{"),
        ("HOLDFAST_SETTINGS", "[]"),
    ],
)
def test_wrong_values_are_named(name: str, value: str) -> None:
    good = variables("file:///x")
    assert Environment.read(good) is not None
    with pytest.raises(EnvironmentVariableError, match=f"^{name} is "):
        Environment.read(good | {name: value})
