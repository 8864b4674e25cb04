"""What pods are made from: one hash for every spelling of one wish, and another one for every other pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import CONFIG, attempt, job, spec

from holdfast.api.failure import Failure
from holdfast.api.job import Checkpoint, Goal, Progress
from holdfast.core.made_from import changed_fields, hash_of, made_from, other_work
from holdfast.core.pod_manifest import build_pod

STORAGE = spec()["checkpoint"]["storage"]
TRAINER: dict[str, Any] = {
    "image": "registry.example/train:1",
    "command": ["python3", "train.py"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C"}],
    "volumes": [
        {"name": "v1", "mountPath": "/v1", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "v2", "mountPath": "/v2", "secret": {"secretName": "s"}},
    ],
    "imagePullSecrets": [{"name": "one"}, {"name": "two"}, {"name": "three"}],
    "data": [{"from": "s3://d/a", "to": "/a"}, {"from": "s3://d/b", "to": "/b"}],
}
MAPS = ("env", "volumes", "imagePullSecrets", "data")
# For each field that is not the trainer's: an edit, and whether pods are made from it.
EDITS: dict[str, list[tuple[Any, bool]]] = {
    "checkpoint.storage": [
        ({"s3": {"bucket": "runs", "prefix": "other"}}, True),
        ({"s3": {**STORAGE["s3"], "ca": {"configMap": {"name": "company"}}}}, True),
        ({"s3": {**STORAGE["s3"], "proxy": "http://proxy:3128"}}, True),
        ({"s3": {**STORAGE["s3"], "addressing": "Path"}}, True),
        ({"s3": {**STORAGE["s3"], "addressing": "Auto"}}, False),
    ],
    "checkpoint.folder": [("/outputs", True)],
    "checkpoint.pattern": [("run-*", True)],
    "checkpoint.exclude": [(["*.log"], True), ([], False)],
    "checkpoint.putBack": [("Newest", True), ("All", False)],
    "checkpoint.every": [("500 steps", True), ("auto", True), ("600s", False)],
    "checkpoint.maxLostWork": [("20m", True)],
    "checkpoint.uploadRate": [("300M", True)],
    "checkpoint.keep": [({"last": 7}, True), ({"last": 3, "logs": True}, False), ({"logs": False}, True)],
    "checkpoint.gracePeriod": [("200s", True), ("1m40s", False)],
    "checkpoint.resume": [("Never", True), ({"from": "s3://b/p", "only": ["model"]}, True), ("Auto", False)],
    "goal.steps": [(7, True)],
    "progress.patterns": [(["step {step}"], True)],
    "failure.maxFailures": [(9, False)],
    "failure.window": [("1h", False)],
    "failure.rules": [([{"exitCodes": [3], "action": "Fail"}], False)],
    "failure.nonFinite": [("Stop", True), ("Rollback", False)],
    "failure.spike": [({}, True), ({"steps": 12}, True)],
    "failure.stallTimeout": [("20m", True), ("Off", True), ("Auto", False)],
    "failure.slowRanks": [({"action": "Ignore"}, True), ({"window": "7m"}, True), ({"action": "Replace"}, False)],
    "failure.silentNode": [("Wait", False), ("Replace", False)],
    "failure.maxFruitless": [(5, False)],
}
OF_FOLDERS = ("checkpoint.pattern", "checkpoint.exclude", "checkpoint.putBack")
NEEDED = {name: {"checkpoint.folder": "/outputs"} for name in OF_FOLDERS}
GATED = {"checkpoint.peers"}  # needs several nodes, and a gate


def edited(**fields: Any) -> Any:
    """A job with these fields of its spec, by path."""
    changes: dict[str, Any] = {"checkpoint": {"storage": STORAGE}}
    for path, value in fields.items():
        part, name = path.split(".")
        changes.setdefault(part, {})[name] = value
    return job(**changes)


def manifest(given: Any) -> dict[str, Any]:
    """The pod of a job, without its hash."""
    made = build_pod(given, attempt(), CONFIG, 7200.0)
    made["metadata"]["annotations"].pop("holdfast.dev/made-from")
    return made


@pytest.mark.parametrize(
    ("name", "value", "counts"), [(name, *edit) for name, edits in EDITS.items() for edit in edits]
)
def test_a_field_is_named_if_and_only_if_pods_are_made_from_it(name: str, value: Any, counts: bool) -> None:
    """Breaks if a pod reads a field of which nobody is told that it counts from the next attempt, or if one is named
    that counts at once."""
    needed = NEEDED.get(name, {})
    before, after = edited(**needed), edited(**{**needed, name: value})
    names = changed_fields(attempt(made_from=made_from(before.spec)), after.spec)
    assert bool(names) is counts
    assert all(one.startswith(name) for one in names)
    assert (manifest(before) != manifest(after)) is counts


def test_every_field_that_may_be_read_by_pods_has_an_edit() -> None:
    """A new field needs one."""
    models = {"checkpoint": Checkpoint, "goal": Goal, "progress": Progress, "failure": Failure}
    known = {f"{part}.{field.alias}" for part, model in models.items() for field in model.model_fields.values()}
    assert known == EDITS.keys() | GATED


def test_peers_count_from_the_next_attempt() -> None:
    two = {"trainer": {**spec()["trainer"], "nodes": 2}}
    with_peers = job(**two, checkpoint={"storage": STORAGE, "peers": True})
    assert changed_fields(attempt(made_from=made_from(job(**two).spec)), with_peers.spec) == ("checkpoint.peers",)


@given(st.tuples(*(st.permutations(TRAINER[name]) for name in MAPS)))
def test_the_order_of_lists_that_are_maps_does_not_count(lists: tuple[list[Any], ...]) -> None:
    shuffled = job(trainer={**TRAINER, **dict(zip(MAPS, lists, strict=True))})
    assert made_from(shuffled.spec) == made_from(job(trainer=TRAINER).spec)


@given(st.permutations(["python3", "train.py", "--lr", "1"]))
def test_the_order_of_other_lists_counts(command: list[str]) -> None:
    given_order = ["python3", "train.py", "--lr", "1"]
    same = made_from(job(trainer={**TRAINER, "command": command}).spec) == made_from(
        job(trainer={**TRAINER, "command": given_order}).spec
    )
    assert same is (command == given_order)


@given(
    st.sampled_from([("2Gi", "2048Mi", "2147483648", 2147483648), ("1Gi", "1024Mi", None)]),
    st.sampled_from([("2", 2, "2000m", "2e0", "2."), ("1", 1, "1000m", None)]),
    st.sampled_from([("90s", "1m30s"), ("100s", "1m40s", None)]),
    st.data(),
)
def test_equal_quantities_and_durations_are_the_same(
    memory: tuple[Any, ...], cpu: tuple[Any, ...], grace: tuple[Any, ...], data: st.DataObject
) -> None:
    def made() -> str:
        chosen = {"memory": data.draw(st.sampled_from(memory)), "cpu": data.draw(st.sampled_from(cpu))}
        resources = {name: value for name, value in chosen.items() if value is not None}
        period = data.draw(st.sampled_from(grace))
        saves = {"storage": STORAGE} | ({"gracePeriod": period} if period else {})
        return hash_of(made_from(job(trainer={**TRAINER, "resources": resources}, checkpoint=saves).spec))

    assert made() == made()


def test_a_trainer_a_storage_and_a_goal_are_another_program_and_settings_are_not() -> None:
    runs = attempt(made_from=made_from(job().spec))
    settings = edited(**{"checkpoint.every": "1h", "checkpoint.folder": "/o", "failure.stallTimeout": "20m"})
    assert other_work(runs, settings.spec) == ()
    assert other_work(runs, job(trainer=TRAINER).spec) == ("trainer",)
    elsewhere = edited(**{"checkpoint.storage": {"s3": {"bucket": "other", "prefix": "p"}}})
    assert other_work(runs, elsewhere.spec) == ("checkpoint.storage",)
    assert other_work(runs, edited(**{"goal.steps": 7}).spec) == ("goal.steps",)


def test_an_attempt_of_which_it_is_not_known_runs_another_program() -> None:
    """Breaks if a status that another version wrote lets a program go on that the spec does not name."""
    assert other_work(attempt(), job().spec) == ("checkpoint.storage", "trainer")
