"""The demo's exit code: 0 only if every claim is true."""

from typing import Any

import pytest
from tests.support.manifests.observed_jobs import running_job

from holdfast.api.objects import TrainingJob
from holdfast_local.demo.script import Script, Struck
from holdfast_local.demo.stories import GANG, ONE_NODE
from holdfast_local.demo.verify import checks, saved_before
from holdfast_train.commitlog.records import Commit, Kind, Record
from holdfast_train.environment import Identity
from holdfast_train.format.names import CheckpointName


def record(kind: Kind, attempt: int, step: int = 0) -> Record:
    writer = Identity("ns", "job", "job-uid", attempt, f"pod-{attempt}")
    commit = (
        Commit(0, step, attempt, "", CheckpointName(step, attempt, "00000000"), "", 0) if kind == "commit" else None
    )
    return Record(seq=0, kind=kind, identity=writer, nonce="", at="", commit=commit)


LOG = [
    record("owner", 1), record("fence", 1), record("commit", 1, 40), record("commit", 1, 55),
    record("fence", 2), record("commit", 2, 90), record("fence", 4), record("commit", 4, 120),
    record("fence", 7), record("commit", 7, 600), record("complete", 7),
]  # fmt: skip


def past(number: int, resumed: int | None, lost: int = 0) -> dict[str, Any]:
    return {
        "number": number, "tier": "spot", "kind": "Interruption", "reason": "SpotInterruption", "resumedStep": resumed,
        "firstStep": 0, "lastStep": 1, "stepsLost": lost, "raisedAt": "2026-11-21T09:00:00Z",
        "endedAt": "2026-11-21T09:00:00Z",
    }  # fmt: skip


def job(**changes: Any) -> TrainingJob:
    history = [past(1, None), past(2, 55), past(4, 90, lost=7), past(7, 120)]
    return running_job({"phase": "Completed", "current": None, "history": history, **changes})


def script(played: int = 3) -> Script:
    attempts = (1, 2, 4)
    return Script(played=[Struck(ONE_NODE.scenes[i], attempts[i], f"n{i}", 0, 0) for i in range(played)])


def test_the_log_says_what_was_saved_before_each_fence() -> None:
    assert saved_before(LOG) == {1: None, 2: 55, 4: 90, 7: 120}


def test_all_holds() -> None:
    found = checks(job(), LOG, script())
    assert all(check.passed for check in found), [check.text for check in found if not check.passed]
    assert "attempt 4 resumed at step 90; saved was step 90" in [check.text for check in found]


# Breaks if the demo would end with 0 although something that it shows did not happen.
@pytest.mark.parametrize(
    ("shown", "log", "played", "wanted"),
    [
        (job(phase="Failed"), LOG, 3, "the job is Failed"),
        (job(), LOG, 2, "2 of 3 nodes"),
        (job(history=[past(1, None), past(2, 40), past(4, 90), past(7, 120)]), LOG, 3, "resumed at step 40"),
        (job(history=[past(1, None), past(2, None), past(4, 90), past(7, 120)]), LOG, 3, "resumed at step -"),
        (job(history=[past(1, None, lost=3), past(2, 55), past(4, 90), past(7, 120)]), LOG, 3, "3 steps were lost"),
        (job(), LOG[:6], 3, "1 attempts resumed"),
    ],
)
def test_what_does_not_hold_is_said(shown: TrainingJob, log: list[Record], played: int, wanted: str) -> None:
    broken = [check.text for check in checks(shown, log, script(played)) if not check.passed]
    assert any(wanted in text for text in broken), broken


# Breaks if the demo would say that an interruption costs one pod although another pod was replaced too.
@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        (["job-1-0", "job-1-1", "job-2-3", "job-3-2"], True),
        (["job-1-0", "job-2-1", "job-2-3", "job-3-2"], False),
        (["job-1-0", "job-1-1", "job-2-1", "job-2-3", "job-3-2"], False),
    ],
)
def test_with_several_nodes_the_other_pods_stay(pods: list[str], wanted: bool) -> None:
    several = TrainingJob.parse(job().model_dump(by_alias=True, mode="json"))
    trainer = several.spec.trainer.model_copy(update={"nodes": 4})
    several = several.model_copy(update={"spec": several.spec.model_copy(update={"trainer": trainer})})
    played = Script(GANG.scenes, played=[Struck(scene, 1, "n", 0, 0) for scene in GANG.scenes])
    found = {check.text: check.passed for check in checks(several, LOG, played, pods)}
    assert found["the pods of ranks 0 and 1 are those of the first attempt"] is wanted
