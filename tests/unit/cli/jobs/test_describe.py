"""The screen of `holdfast describe` for each state of a job."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast_cli.cluster.job_api import Line
from holdfast_cli.jobs import describe

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
STUCK = {"action": "Wait", "reason": "x", "at": DRAIN["at"]}


def shown(changes: dict[str, Any] | None = None, **spec: Any) -> str:
    console = Console(width=160, force_terminal=False)
    events = [Line("e1", NOW, warning=True, reason="Notice", message="it will be long " * 20)]
    with console.capture() as captured:
        describe.show(console, running_job(changes, **spec), events, NOW)
    return captured.get()


@pytest.mark.parametrize(
    "wanted",
    ["demo/job", "Run (1m00s ago): attempt 3 runs on dedicated-1", "attempt 2, UserException:", "ValueError: bad batch",
     "File train.py, line 7", "SpotInterruption", "1 interruption (0 of them infrastructure), 1 of 3 allowed failures",
     "7 steps done twice, 9.0s without training", "Progressing", "the step grows", "The program trains."],
)  # fmt: skip
def test_it_says(wanted: str) -> None:
    assert wanted in shown()


def test_metrics_are_told() -> None:
    metrics = [{"name": "accuracy", "value": "0.9"}, {"name": "[bold]", "value": "nan"}]
    said = shown({"progress": {**RUNNING["progress"], "metrics": metrics}})
    assert "metrics   accuracy 0.9   [bold] nan" in said
    assert "metrics" not in shown()


def test_events_are_not_cut() -> None:
    assert shown().replace("\n", " ").count("it will") == 20


# Breaks if people are told of one node, or of the node of rank 0, where the job has several.
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"current": {**SEVERAL, "state": "Acquiring", "acquireDeadline": "2026-11-21T09:05:00Z"}},
            "waits 2m00s more for all 4 nodes of tier dedicated; then it gives back the nodes that it has",
        ),
        ({"current": {**SEVERAL, "state": "Acquiring"}}, "waits for all 4 nodes of tier dedicated."),
        ({"current": {**SEVERAL, "state": "Starting"}, "readyNodes": "3/4"}, "once all of them are ready (3/4 are)."),
        ({"current": SEVERAL, "library": True}, "another one takes its place"),
        ({"current": SEVERAL}, "The programs train. If a node is taken away, they are ended, and start again on all"),
        (
            {"current": {**SEVERAL, "departure": GOES}, "successor": {**SEVERAL, "number": 4, "state": "Starting"}},
            "A node goes away in 20s (SpotInterruption); the job trains until then. Attempt 4 starts (tier dedicated);",
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
    assert wanted in describe.what_next(running_job(changes), NOW)


# Breaks if a phase or state leaves a person without a next step.
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"phase": None, "current": None}, "has not read the job yet"),
        ({"phase": "Completed", "current": None}, "training is complete"),
        ({"phase": "Failed", "current": None}, "failed for good"),
        ({"phase": "Suspended", "current": None}, "spec.suspend: false"),
        ({"phase": "Recovering", "current": None}, "being prepared"),
        ({"current": {**CURRENT, "state": "Intended", "retryAt": "2026-11-21T09:03:40Z"}}, "starts in 40s"),
        ({"current": {**CURRENT, "state": "Intended"}}, "when the previous attempt has ended"),
        (
            {"current": {**CURRENT, "state": "Acquiring", "acquireDeadline": "2026-11-21T09:05:00Z"}},
            "waits 2m00s more for a node of tier dedicated",
        ),
        ({"current": {**CURRENT, "state": "Acquiring"}}, "waits for a node of tier dedicated"),
        ({"current": {**CURRENT, "state": "Starting"}}, "restore"),
        (
            {"current": {**CURRENT, "state": "Draining", "drain": DRAIN}},
            "within 20s (SpotInterruption); the program has not",
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
    assert wanted in describe.what_next(running_job(changes), NOW)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"library": True}, "it saves, moves, and resumes at the step that it saved"),
        ({}, "Nothing shows that it uses Holdfast's checkpoints"),  # it may be of an earlier program
        ({"checkpoint": None, "library": True}, "it saves, moves, and resumes"),
        ({"checkpoint": None, "current": {**CURRENT, "fenced": True}}, "it saves, moves, and resumes"),
        ({"checkpoint": None}, "The program trains. If its node is taken away, the program is asked to leave"),
        ({"checkpoint": None, "current": QUIET}, "The program runs, and has reported nothing."),
    ],
)
def test_no_more_is_promised_than_the_program_shows(changes: dict[str, Any], wanted: str) -> None:
    said = describe.what_next(running_job(changes), NOW)
    assert wanted in said
    assert ("saves, moves" in said) == ("saves, moves" in wanted)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"phase": "Suspended", "current": None, "reason": "BudgetExceeded"}, "a higher spec.capacity.budget"),
        ({"reason": "NodeSilent"}, "does not answer"),
        ({"reason": "NeverEnded", "decision": STUCK}, "The job waits: x."),
        ({"current": {**CURRENT, "state": "Acquiring", "acquireDeadline": DRAIN["at"]}}, "waits for a node of tier"),
        ({"current": {**CURRENT, "state": "Draining", "drain": {**DRAIN, "deadline": DRAIN["at"]}}}, "is over"),
        ({"checkpoint": None, "current": {**CURRENT, "state": "Draining", "drain": DRAIN}}, "must leave within 20s"),
    ],
)
def test_a_wait_is_called_what_it_is(changes: dict[str, Any], wanted: str) -> None:
    assert wanted in describe.what_next(running_job(changes), NOW)


def test_a_job_that_will_be_deleted_says_when() -> None:
    job = running_job(
        {"phase": "Completed", "current": None, "finishedAt": "2026-11-21T09:02:00Z"}, ttlAfterFinished="1h"
    )
    assert "The object is deleted at" in describe.what_next(job, NOW)


def test_a_job_without_failures_has_no_last_words() -> None:
    assert "LAST WORDS" not in shown({"history": RUNNING["history"][:1]})


# Breaks if a program without the library is said to have lost no step, or to have no checkpoint.
def test_what_is_not_known_of_a_program_without_the_library_is_not_told() -> None:
    record = {
        "number": 2, "tier": "spot", "kind": "Interruption", "reason": "NodeGone", "raisedAt": "2026-11-21T09:00:00Z",
        "endedAt": "2026-11-21T09:01:00Z", "firstStep": 1, "lastStep": 120, "secondsLost": "40s",
    }  # fmt: skip
    ledger = {**RUNNING["ledger"], "uncountedRestarts": 1, "stepsLost": 0, "goodput": None, "secondsLost": "40s"}
    text = " ".join(shown({"checkpoint": None, "ledger": ledger, "history": [record]}).split())
    assert "Nothing shows that it uses Holdfast's checkpoints" in text
    assert "not known to Holdfast" in text
    assert "steps done twice are not known, 40.0s without training" in text
    assert " 40.0s " in text
    assert not any(word in text for word in ("0 steps", "goodput", "of training done twice", "none yet"))


# Breaks if a program that tells no steps is said to have done none of them twice.
def test_a_program_that_tells_no_steps() -> None:
    ledger = {**RUNNING["ledger"], "stepsLost": 0, "goodput": None, "byTier": []}
    assert "0 steps done twice" not in shown({"checkpoint": None, "ledger": ledger})
    assert "0 steps done twice" in shown({"checkpoint": None, "ledger": ledger, "library": True})


# Breaks if a job whose next attempt has not made a step yet is said to have done no step twice.
def test_what_the_last_interruption_costs_is_not_known_before_the_first_step_after_it() -> None:
    record = {
        "number": 2, "tier": "spot", "kind": "Interruption", "reason": "NodeGone", "raisedAt": "2026-11-21T09:00:00Z",
        "endedAt": "2026-11-21T09:01:00Z", "firstStep": 1, "lastStep": 120,
    }  # fmt: skip
    assert "7 steps done twice before the last interruption, " in shown({"history": [record]})
    assert "7 steps done twice, " in shown({"history": [{**record, "secondsLost": "40s"}]})
    assert "7 steps done twice, " in shown({"history": [{**record, "kind": "Completed"}]})
