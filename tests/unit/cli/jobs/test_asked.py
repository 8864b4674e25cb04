"""What comes of a request."""

from typing import Any

import pytest
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast_cli.errors import CliError
from holdfast_cli.jobs import asked

CURRENT: dict[str, Any] = RUNNING["current"]
NEWER = {**RUNNING["checkpoint"], "step": 300, "committedAt": "2026-11-21T09:03:10Z"}


def test_ids_are_new_each_time_and_one_word() -> None:
    ids = {asked.new_id() for _ in range(3)}
    assert len(ids) == 3
    assert all(len(one.split()) == 1 for one in ids)


def test_checkpoint_waits_until_it_is_handled_and_saved() -> None:
    outcome = asked.checkpoint_outcome(running_job(), "id-1")
    assert outcome(running_job()) is None
    # A save that was under way before the request was read is not the answer to it.
    assert outcome(running_job({"checkpoint": NEWER})) is None
    assert outcome(running_job({"requests": {"checkpoint": "id-1"}})) is None
    said = outcome(running_job({"requests": {"checkpoint": "id-1"}, "checkpoint": NEWER}))
    assert said is not None
    assert said.startswith("saved step 300 (37.2 MiB): s3://runs/")


def test_checkpoint_says_that_the_attempt_ended_first() -> None:
    outcome = asked.checkpoint_outcome(running_job(), "id-1")
    with pytest.raises(CliError, match="attempt 3 ended before it saved"):
        outcome(running_job({"requests": {"checkpoint": "id-1"}, "attempt": 4}))


def test_checkpoint_says_that_the_job_is_over() -> None:
    outcome = asked.checkpoint_outcome(running_job(), "id-1")
    with pytest.raises(CliError, match="is over"):
        outcome(running_job({"phase": "Completed", "current": None}))


@pytest.mark.parametrize(
    ("nodes", "tier", "node", "argument"),
    [(1, None, None, ""), (1, "spot", None, "spot"), (4, "spot", None, "spot"), (4, None, "n2", "node=n2"),
     (4, None, None, None), (1, None, "n2", None), (4, "spot", "n2", None)],
)  # fmt: skip
def test_a_move_says_which_of_several_nodes_it_leaves(
    nodes: int, tier: str | None, node: str | None, argument: str | None
) -> None:
    """Breaks if a training on several nodes leaves a node that nobody named."""
    job = running_job()
    trainer = job.spec.trainer.model_copy(update={"nodes": nodes})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"trainer": trainer})})
    if argument is None:
        with pytest.raises(CliError, match="node"):
            asked.move_argument(job, tier, node)
    else:
        assert asked.move_argument(job, tier, node) == argument


@pytest.mark.parametrize("state", ["Intended", "Acquiring", "Starting", "Draining", None])
def test_one_of_several_nodes_is_left_only_while_the_job_trains(state: str | None) -> None:
    """Breaks if the command waits ten minutes for a request that the operator has refused."""
    job = running_job({"current": {**CURRENT, "state": state} if state else None})
    trainer = job.spec.trainer.model_copy(update={"nodes": 4})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"trainer": trainer})})
    with pytest.raises(CliError, match=f"{state or 'no attempt'}.*only while it trains"):
        asked.move_argument(job, None, "n2")


def test_move_waits_for_a_later_attempt_that_runs() -> None:
    outcome = asked.move_outcome(running_job(), "id-2")
    handled = {"requests": {"move": "id-2"}}
    assert outcome(running_job({"current": {**CURRENT, "number": 4}})) is None
    assert outcome(running_job(handled)) is None
    assert outcome(running_job({**handled, "current": {**CURRENT, "number": 4, "state": "Starting"}})) is None
    said = outcome(running_job({**handled, "current": {**CURRENT, "number": 4}, "node": "n9"}))
    assert said == "attempt 4 runs on tier dedicated, node n9, resumed at step 120"


@pytest.mark.parametrize("phase", ["Completed", "Failed"])
def test_nothing_is_asked_of_a_job_that_is_over(phase: str) -> None:
    with pytest.raises(CliError, match=phase):
        asked.refuse_final(running_job({"phase": phase}))
