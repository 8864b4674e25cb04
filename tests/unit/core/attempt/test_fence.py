"""When a job goes on although the program of its last attempt may still run: every combination."""

from itertools import product
from typing import Any

import pytest
from tests.support.decisions.snapshots import (
    SAME,
    attempt,
    job,
    node,
    pod,
    settled,
    silent,
    snapshot,
    spec,
    status,
)
from tests.support.decisions.snapshots import nodes as cluster

from holdfast.core.attempt.fence import why_wait
from holdfast.core.draft import Draft
from holdfast.core.made_from import made_from

CLAIM = {"name": "shared", "mountPath": "/outputs", "persistentVolumeClaim": {"claimName": "runs"}}
EMPTY = {"name": "own", "mountPath": "/outputs", "emptyDir": {}}
READ_ONLY = [
    {**CLAIM, "name": "mount", "readOnly": True},
    {"name": "claim", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    {"name": "secret", "mountPath": "/secret", "secret": {"secretName": "keys"}},
]
VOLUMES = {"nothing": [], "own": [EMPTY], "read-only": READ_ONLY, "shared": [CLAIM, *READ_ONLY[1:]]}
FENCES = {"none": {}, "held": {"fenced": True}, "known": {}}
FOLDER = {**spec()["checkpoint"], "folder": "/outputs"}
NO_FENCE, SHARED, WAIT = "nothing shows", "may still write to shared (", "failure.silentNode is Wait"
# What the volumes are, for a folder that is saved; what the fence is, for a program without one.
BY_VOLUMES = {"nothing": None, "own": None, "read-only": None, "shared": SHARED}
BY_FENCE = {"none": NO_FENCE, "held": None, "known": None}


def expected(setting: str, folder: bool, volumes: str, fence: str, edited: bool) -> str | None:
    """The beginning of the words, or None if the job goes on."""
    if setting != "Auto":
        return WAIT if setting == "Wait" else None
    if edited:  # the program of the attempt is another one; only that of the spec is known
        return None if fence == "known" else NO_FENCE
    return BY_VOLUMES[volumes] if folder else BY_FENCE[fence]


def given(setting: str, folder: bool, volumes: str, fence: str, edited: bool, *, nodes: int = 1) -> Any:
    """A job that runs, on a node that fell silent."""
    changes: dict[str, Any] = {
        "failure": {"silentNode": setting},
        "trainer": {**spec()["trainer"], "volumes": VOLUMES[volumes], "nodes": nodes},
    }
    if folder:
        changes["checkpoint"] = FOLDER
    before = {**changes, "trainer": {**changes["trainer"], "command": ["old"], "volumes": []}} if edited else changes
    runs = made_from(job(**before).spec)
    known = {"fenced_program": SAME} if fence == "known" else {}
    return job(status(attempt(made_from=runs, nodes=nodes, **FENCES[fence]), **known), **changes)


@pytest.mark.parametrize(
    ("setting", "folder", "volumes", "fence", "edited", "nodes"),
    list(product(["Auto", "Wait", "Replace"], [True, False], VOLUMES, FENCES, [True, False], [1, 4])),
)
def test_every_combination(setting: str, folder: bool, volumes: str, fence: str, *, edited: bool, nodes: int) -> None:
    """Breaks if a program that may still write is not waited for, or if one is waited for that can do no harm."""
    runs = given(setting, folder, volumes, fence, edited, nodes=nodes)
    draft = Draft(snapshot(runs, pod(), cluster=cluster(silent())))
    assert draft.status.current is not None
    words, starts = why_wait(draft, draft.status.current), expected(setting, folder, volumes, fence, edited)
    assert (words is None) is (starts is None), words
    assert starts is None or starts in str(words)


@pytest.mark.parametrize("change", ["Replace", "read-only"])
def test_an_edit_ends_the_wait_of_a_job_that_waits_already(change: str) -> None:
    """Breaks if the owner can decide only before the node dies."""
    before = given("Auto", True, "shared", "none", False)
    first = settled(snapshot(before, pod(), cluster=cluster(silent(seconds=36))))
    assert first.trace == ("node silent, wait",)
    assert SHARED in str(first.status.next), first.status.next
    edit = (
        given("Replace", True, "shared", "none", False)
        if change == "Replace"
        else given("Auto", True, "read-only", "none", False)
    )
    after = edit.model_copy(update={"status": first.status})
    again = settled(snapshot(after, pod(), cluster=cluster(silent(seconds=36))))
    goes_on = change == "Replace"  # the old program still has the volume as it was mounted
    assert ("node silent" in again.trace) is goes_on, again.trace
    assert (again.status.current.number == 2) is goes_on


def test_many_volumes_are_named_in_a_few_words() -> None:
    volumes = [{**CLAIM, "name": f"v{n}", "mountPath": f"/v{n}"} for n in range(5)]
    held = job(status(attempt()), trainer={**spec()["trainer"], "volumes": volumes}, checkpoint=FOLDER)
    draft = Draft(snapshot(held, pod(), cluster=cluster(node())))
    assert draft.status.current is not None
    assert "may still write to v0, v1, v2 and 2 more (" in str(why_wait(draft, draft.status.current))
