"""Which logs are asked for, and which of them are gone."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import pod
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast_cli.errors import CliError
from holdfast_cli.logs import chosen
from holdfast_cli.logs.screen import heading

ENDED = {
    "number": 1,
    "tier": "spot",
    "kind": "Interruption",
    "reason": "NodeLost",
    "raisedAt": "2026-11-21T09:00:00Z",
    "endedAt": "2026-11-21T09:01:00Z",
}


# Breaks if an attempt that never had a program counts as one whose log was deleted, or a deleted log is passed over.
def test_logs_that_are_gone_are_named() -> None:
    ran = {**ENDED, "startedAt": "2026-11-21T09:00:30Z"}
    job = running_job({"history": [ran, {**ENDED, "number": 2}]})
    assert chosen.missing_attempts(job, [pod(3)], 0) == (1,)
    assert chosen.missing_attempts(job, [pod(1), pod(3)], 0) == ()
    assert chosen.missing_attempts(job, [replace(pod(1), outlives=True)], 0) == ()
    assert "the log of attempt 1;" in chosen.missing_words((1,))
    assert "the log of attempts 1-3,5;" in chosen.missing_words((1, 2, 3, 5))
    with pytest.raises(CliError, match="attempt 2 ended before its program started: NodeLost"):
        chosen.refuse_attempt(job, 2, to_come=True)
    with pytest.raises(CliError, match="has no attempt 4: the newest is attempt 3"):
        chosen.refuse_attempt(job, 4, to_come=False)
    chosen.refuse_attempt(job, 4, to_come=True)


# Breaks if a rank that the job has not is passed over in silence, or if more connections are needed than there are.
@pytest.mark.parametrize(("nodes", "text", "ranks"), [(4, "all", 4), (4, "0-1,3", 3), (1, "0", 1), (90, "all", 90)])
def test_ranks(nodes: int, text: str, ranks: int) -> None:
    job = running_job()
    trainer = job.spec.trainer.model_copy(update={"nodes": nodes})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"trainer": trainer})})
    assert len(chosen.ranks_of(job, text)) == ranks
    for wrong in (str(nodes), "x", "-1"):
        with pytest.raises(CliError, match="--rank"):
            chosen.ranks_of(job, wrong)


# Breaks if the heading of an attempt says another place or step than the status.
def test_headings_say_where_an_attempt_runs() -> None:
    job = running_job({"history": [{**ENDED, "node": "n1", "resumedStep": 1200}]})
    assert heading(job, 3, None) == "--- attempt 3 on dedicated, from step 120 ---"
    assert heading(job, 1, None) == "--- attempt 1 on spot, node n1, from step 1,200 ---"
    starts = running_job({"current": {**RUNNING["current"], "firstStep": None, "resumedStep": None}})
    assert (
        heading(starts, 3, pod(3)) == f"--- attempt 3 on dedicated, node {pod(3).node}, newest checkpoint step 240 ---"
    )
    assert heading(starts, 9, None) == "--- attempt 9 ---"
