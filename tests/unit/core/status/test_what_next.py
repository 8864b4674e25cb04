"""What happens next, for each state of a job."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.decisions.snapshots import snapshot
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast.core.draft import Draft
from holdfast.core.status.what_next import tell_next

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)
CURRENT: dict[str, Any] = RUNNING["current"]
DRAIN = {
    "order": 1,
    "reason": "SpotInterruption",
    "at": "2026-11-21T09:02:50Z",
    "deadline": "2026-11-21T09:03:20Z",
}
GOES = {"reason": "SpotInterruption", "message": "x", "at": DRAIN["at"], "deadline": DRAIN["deadline"],
        "leaveAt": DRAIN["deadline"]}  # fmt: skip
SEVERAL = {**CURRENT, "nodes": 4}
QUIET = {name: value for name, value in CURRENT.items() if name != "firstStep"}
RETRY = "2026-11-21T09:03:40Z"
STUCK = {"action": "Wait", "message": "x", "at": DRAIN["at"]}


def said(changes: dict[str, Any], **spec: Any) -> str:
    draft = Draft(snapshot(running_job(changes, **spec), now=NOW))
    tell_next(draft)
    assert draft.status.next
    return draft.status.next


# Breaks if people are told of one node, or of the node of rank 0, where the job has several.
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"current": {**SEVERAL, "state": "Acquiring", "acquireDeadline": "2026-11-21T09:05:00Z"}},
            "until 2026-11-21T09:05:00Z for all 4 nodes of tier dedicated; then it tries the next tier. If only a part",
        ),
        ({"current": {**SEVERAL, "state": "Acquiring"}}, "waits for all 4 nodes of tier dedicated."),
        ({"current": {**SEVERAL, "state": "Starting"}, "readyNodes": "3/4"}, "once all of them are ready (3/4 are)."),
        ({"current": SEVERAL, "fenced_program": "known"}, "another one takes its place"),
        ({"current": SEVERAL}, "The programs train. If a node is taken away, they are ended, and start again on all"),
        (
            {"current": {**SEVERAL, "departure": GOES}, "successor": {**SEVERAL, "number": 4, "state": "Starting"}},
            "at 2026-11-21T09:03:20Z (SpotInterruption); the job trains until then. Attempt 4 starts (tier dedicated);",
        ),
        (
            {
                "current": {**SEVERAL, "replaces": "gpu-7"},
                "successor": {**SEVERAL, "number": 4, "state": "Starting", "avoidNodes": ["gpu-7"]},
            },
            "when it is ready, the current attempt leaves node gpu-7, where a rank is slow.",
        ),
    ],
)
def test_what_happens_next_on_several_nodes(changes: dict[str, Any], wanted: str) -> None:
    assert wanted in said(changes)


def test_what_happens_next_to_a_folder() -> None:
    saves = {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "folder": "/outputs"}
    text = said({"current": QUIET}, checkpoint=saves)
    assert "The program runs, and /outputs is committed each time that it has written a save." in text
    assert text.endswith("starts again on another node, with that folder put back.")


def test_what_happens_next_to_the_folders_of_several_nodes() -> None:
    saves = {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "folder": "/outputs"}
    text = said({"current": SEVERAL}, checkpoint=saves)
    assert "The program trains on 4 nodes, and /outputs of all nodes is committed together each time" in text
    assert text.endswith("the programs of all nodes start again, with that folder put back.")


# Breaks if a phase or state leaves a person without a next step.
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"phase": "Completed", "current": None}, "training is complete"),
        ({"phase": "Failed", "current": None}, "failed for good"),
        ({"phase": "Suspended", "current": None}, "spec.suspend: false; then it resumes from its last checkpoint."),
        (
            {"phase": "Suspended", "current": None, "checkpoint": None},
            "false; then its next attempt starts.",
        ),
        ({"phase": "Recovering", "current": None}, "being prepared"),
        (
            {"current": {**CURRENT, "state": "Intended", "retryAt": RETRY}},
            f"starts at {RETRY} (backoff)",
        ),
        ({"current": {**CURRENT, "state": "Intended"}}, "when the previous attempt has ended"),
        (
            {"current": {**CURRENT, "state": "Acquiring", "acquireDeadline": "2026-11-21T09:05:00Z"}},
            "waits until 2026-11-21T09:05:00Z for a node of tier dedicated",
        ),
        ({"current": {**CURRENT, "state": "Acquiring"}}, "waits for a node of tier dedicated"),
        ({"current": {**CURRENT, "state": "Starting"}}, "restore"),
        (
            {"current": {**CURRENT, "state": "Draining", "drain": DRAIN}},
            "by 2026-11-21T09:03:20Z (SpotInterruption); the program has not",
        ),
        (
            {
                "current": {**CURRENT, "state": "Draining", "drain": {**DRAIN, "acknowledgedAt": DRAIN["at"]}},
                "successor": {**CURRENT, "number": 4, "state": "Intended"},
            },
            "has acknowledged. Attempt 4 follows on tier dedicated.",
        ),
    ],
)
def test_what_happens_next(changes: dict[str, Any], wanted: str) -> None:
    assert wanted in said(changes)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"fenced_program": "known"}, "it saves, moves, and resumes at the step that it saved"),
        ({}, "Nothing shows that it uses Holdfast's checkpoints"),  # it may be of an earlier program
        ({"checkpoint": None, "fenced_program": "known"}, "it saves, moves, and resumes"),
        ({"checkpoint": None, "current": {**CURRENT, "fenced": True}}, "it saves, moves, and resumes"),
        (
            {"current": QUIET, "fenced_program": "known"},
            "The program reads the last checkpoint from the storage, and has trained no step yet.",
        ),
        (
            {"checkpoint": None, "current": {**QUIET, "fenced": True}},
            "The program starts, and has trained no step yet. If the storage does not answer for a minute",
        ),
        ({"checkpoint": None}, "The program trains. If its node is taken away, the program is asked to leave"),
        ({"checkpoint": None, "current": QUIET}, "The program runs, and has reported nothing."),
    ],
)
def test_no_more_is_promised_than_the_program_shows(changes: dict[str, Any], wanted: str) -> None:
    told = said(changes)
    assert wanted in told
    assert ("saves, moves" in told) == ("saves, moves" in wanted)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"phase": "Suspended", "current": None, "reason": "BudgetExceeded"}, "a higher spec.capacity.budget"),
        (
            {"reason": "NodeSilent"},
            "does not answer. If no report arrives from there either, the job continues elsewhere",
        ),
        ({"reason": "NeverEnded", "decision": STUCK}, "The job waits: x."),
        ({"current": {**CURRENT, "state": "Acquiring", "acquireDeadline": DRAIN["at"]}}, "waits for a node of tier"),
        ({"current": {**CURRENT, "state": "Draining", "drain": {**DRAIN, "deadline": DRAIN["at"]}}}, "is over"),
        (
            {"checkpoint": None, "current": {**CURRENT, "state": "Draining", "drain": DRAIN}},
            "must leave by 2026-11-21T09:03:20Z",
        ),
    ],
)
def test_a_wait_is_called_what_it_is(changes: dict[str, Any], wanted: str) -> None:
    assert wanted in said(changes)


def test_a_job_that_must_leave_names_the_storage_that_fails():
    """Breaks if people read that the program has acknowledged, while no save can succeed."""
    failing = {
        "type": "CheckpointFailing", "status": "True", "reason": "SaveFailed", "message": "StorageUnreachable: s3",
        "lastTransitionTime": "2026-11-21T09:02:00Z",
    }  # fmt: skip
    leaves = {**CURRENT, "state": "Draining", "drain": DRAIN}
    assert "Its last save failed: StorageUnreachable: s3." in said({"current": leaves, "conditions": [failing]})
    assert "failed" not in said({"current": leaves, "conditions": [{**failing, "status": "False"}]})
    silent = {**failing, "type": "StorageUnreachable", "message": "the storage is silent"}
    both = said({"current": leaves, "conditions": [failing, silent]})
    assert both.startswith("The storage is silent. The attempt must ")
    assert "failed" not in both, "one cause, said once"
