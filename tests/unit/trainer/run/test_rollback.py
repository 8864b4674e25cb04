"""A run whose losses are not finite: it goes back to a healthy checkpoint, and in the end it stops."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.runs import settle, verdict
from tests.support.trainer.stores import environment, identity

from holdfast_protocol.settings import Every
from holdfast_train import ElasticSampler, Run
from holdfast_train.commitlog import records
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.examples.stub import Counter
from holdfast_train.format.names import CheckpointName
from holdfast_train.run.finite import Fault, FiniteGuard
from holdfast_train.run.rollback import target
from holdfast_train.storage.folder import FolderStorage

NAN = float("nan")


def run(folder: Path, attempt: int, goal: int, *, bad: range = range(0), action: str = "Rollback") -> tuple[Any, int]:
    """Train, saving every 50 steps. The exit code, None if there is none, and the step at which training began."""
    variables = {"every": Every(50), "HOLDFAST_VERDICT_DIR": str(folder)}
    where = environment(f"file://{folder}/prefix", attempt, non_finite=action, **variables)
    begun = -1
    try:
        with Run(counter=Counter(), environment=where) as training:
            begun = training.step
            for step in training.steps(goal):
                training.report(loss=NAN if step in bad else 1.0)
                settle(training)
    except SystemExit as ended:
        return ended.code, begun
    return None, begun


def state(folder: Path) -> records.LogState:
    return CommitLog(FolderStorage(folder / "prefix"), identity(0)).refresh()


def test_back_to_the_newest_healthy_checkpoint_and_the_third_time_it_is_over(tmp_path: Path) -> None:
    """Breaks if an attempt goes on from a checkpoint that fewer than 100 clean steps follow, or goes on for ever."""
    bad = range(220, 230)
    assert run(tmp_path, 1, 400, bad=bad) == (1, 0)
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("failed", "NonFinite")
    assert "3 in a row: step 221 (nan); step 222 (nan); step 223 (nan)" in found["message"]
    assert "goes back to step 100" in found["message"]
    log = state(tmp_path)
    assert [c.step for c in log.commits][-1] == 100
    assert [c.step for c in log.left] == [150, 200]
    assert [(r.step, r.found, r.attempt) for r in log.rollbacks] == [(100, 221, 1)]
    assert run(tmp_path, 2, 400, bad=bad) == (1, 100)
    assert run(tmp_path, 3, 400, bad=bad) == (78, 100)
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("misconfigured", "NonFinite")
    assert "rolled back 2 times before" in found["message"]
    assert len(state(tmp_path).rollbacks) == 2


def test_a_person_who_takes_the_training_back_begins_the_count_anew(tmp_path: Path) -> None:
    """Breaks if a training that a person has mended fails at its next fault, as if nobody had been there."""
    bad = range(220, 230)
    assert [run(tmp_path, number, 400, bad=bad)[0] for number in (1, 2)] == [1, 1]
    person = CommitLog(FolderStorage(tmp_path / "prefix"), identity(0))
    person.roll_back(person.refresh().commits[0].seq, "a person asked for it", by_person=True)
    assert [run(tmp_path, number, 400, bad=bad)[0] for number in (3, 4, 5)] == [1, 1, 78]
    assert [one.attempt for one in state(tmp_path).rollbacks] == [1, 2, 0, 3, 4]


def test_a_fault_that_does_not_come_again(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 300, bad=range(220, 230)) == (1, 0)
    assert run(tmp_path, 2, 300) == (None, 100)
    log = state(tmp_path)
    assert (log.complete, log.commits[-1].step) == (300, 300)
    assert [c.step for c in log.commits if c.healthy][-1] == 200


def test_to_the_start_if_nothing_is_healthy(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 300, bad=range(90, 99)) == (1, 0)
    assert "goes back to the start" in verdict(tmp_path)["message"]
    assert run(tmp_path, 2, 100) == (None, 0)


def test_stop(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 300, bad=range(120, 130), action="Stop") == (78, 0)
    assert "failure.nonFinite is Stop" in verdict(tmp_path)["message"]
    assert state(tmp_path).rollbacks == ()


def test_ignore(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 200, bad=range(120, 130), action="Ignore") == (None, 0)
    assert not any(c.healthy for c in state(tmp_path).commits)


def test_a_fault_in_the_last_steps_does_not_complete_the_training(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 200, bad=range(197, 200)) == (1, 0)
    assert state(tmp_path).complete is None


@pytest.mark.parametrize(("bad", "code"), [(range(199, 200), 1), (range(198, 199), None)])
def test_a_training_does_not_end_with_a_bad_loss(tmp_path: Path, bad: range, code: int | None) -> None:
    """Breaks if a training is complete whose program ends at the first bad loss, or one with a bad loss before."""
    assert run(tmp_path, 1, 200, bad=bad) == (code, 0)
    assert (state(tmp_path).complete is None) == (code == 1)
    if code == 1:
        assert "the loss was not finite, at the end of training: step 200 (nan)" in verdict(tmp_path)["message"]


class LateGuard(FiniteGuard):
    """Knows all losses only when it must, as with a GPU that is many steps behind."""

    noted: list[tuple[int, float]]

    def note(self, step: int, measured: Mapping[str, Any]) -> bool:
        self.noted = [*getattr(self, "noted", []), (step, measured["loss"])]
        return False

    def _judge_rest(self) -> None:
        for one in self.noted:
            self._judge(*one)
        self.noted = []


def test_losses_of_the_last_steps_that_are_known_late_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a training on a GPU completes although the losses of its last steps are not numbers."""
    monkeypatch.setattr("holdfast_train.run.run.FiniteGuard", LateGuard)
    assert run(tmp_path, 1, 200, bad=range(190, 200)) == (1, 0)
    assert state(tmp_path).complete is None
    assert "goes back to step 50" in verdict(tmp_path)["message"]
    assert run(tmp_path, 2, 200) == (None, 50)


@pytest.mark.parametrize(
    ("clean", "flags", "step"),
    [
        (500, (False, False, False), 300),  # 120 clean steps follow step 300
        (110, (False, False, False), None),
        (110, (True, False, False), 100),
        (500, (True, False, False), 300),
    ],
)
def test_the_target(clean: int, flags: tuple[bool, ...], step: int | None) -> None:
    commits = tuple(
        records.Commit(n, 100 * n + 100 * (n > 1), 1, "t", CheckpointName(n, 1, "0"), "00", 1, healthy=flag)
        for n, flag in enumerate(flags, 1)
    )  # of the steps 100, 300 and 400
    found = target(records.LogState(commits=commits), Fault(421, 423, 420, clean, "x"))
    assert (found.step if found else None) == step


def test_a_checkpoint_after_the_newest_known_loss_is_no_target() -> None:
    """Breaks if steps whose losses nobody reported count as clean: their checkpoints may be the spoiled ones."""
    commits = tuple(records.Commit(n, 1000 * n + 500, 1, "t", CheckpointName(n, 1, "0"), "00", 1) for n in range(1, 9))
    found = target(records.LogState(commits=commits), Fault(6000, 8000, 5000, 5000, "x"))
    assert found is not None
    assert found.step == 4500


SAMPLES, BATCH = 3000, 4


def train_on_data(folder: Path, attempt: int, goal: int, poisoned: set[int]) -> tuple[Any, int, list[list[int]]]:
    """As `run`, with losses that depend on the data. Also the samples of each step."""
    variables = {"every": Every(50), "HOLDFAST_VERDICT_DIR": str(folder)}
    where = environment(f"file://{folder}/prefix", attempt, non_finite="Rollback", **variables)
    sampler = ElasticSampler(SAMPLES, batch=BATCH, seed=3, rank=0, ranks=1)
    begun, seen = -1, []
    try:
        with Run(sampler=sampler, environment=where) as training:
            begun = training.step
            for step in training.steps(goal):
                seen.append(sampler.indices(step))
                training.report(loss=NAN if poisoned.intersection(seen[-1]) else 1.0)
                settle(training)
    except SystemExit as ended:
        return ended.code, begun, seen
    return None, begun, seen


# Breaks if the attempt after a rollback meets the same data, sees a sample twice, or passes over more than it has to.
def test_the_data_up_to_the_fault_is_passed_over_once(tmp_path: Path) -> None:
    order = ElasticSampler(SAMPLES, batch=BATCH, seed=3, rank=0, ranks=1)
    steps = [order.indices(step) for step in range(SAMPLES // BATCH)]
    first, second = ({sample for step in steps[at : at + 3] for sample in step} for at in (220, 560))
    code, _, seen = train_on_data(tmp_path, 1, 500, first | second)
    assert (code, seen) == (1, steps[:223])
    assert "goes back to step 100, and passes over the data up to step 223" in verdict(tmp_path)["message"]
    assert state(tmp_path).rollbacks[-1].skipped == 123
    code, begun, seen = train_on_data(tmp_path, 2, 500, first | second)
    assert (code, begun) == (1, 100)
    assert seen == steps[223:563], "what follows, up to the next fault"
    last = state(tmp_path)
    assert last.commits[-1].skipped == 123, "each checkpoint knows what was passed over before it"
    back = last.rollbacks[-1]
    assert back.skipped == 123 + (563 - 123) - back.step
    code, begun, seen = train_on_data(tmp_path, 3, 500, first | second)
    assert (code, begun) == (None, back.step)
    assert seen == [order.indices(step) for step in range(563, 563 + 500 - back.step)]


# Breaks if an attempt that is interrupted after a rollback goes on with the data that the rollback has passed over.
def test_what_was_passed_over_stays_so_in_later_attempts(tmp_path: Path) -> None:
    order = ElasticSampler(SAMPLES, batch=BATCH, seed=3, rank=0, ranks=1)
    bad = {sample for step in range(220, 223) for sample in order.indices(step)}
    train_on_data(tmp_path, 1, 400, bad)
    code, begun, _ = train_on_data(tmp_path, 2, 300, bad)
    assert (code, begun) == (None, 100)


def test_a_program_that_cannot_pass_over_data_trains_on_the_same_again(tmp_path: Path) -> None:
    run(tmp_path, 1, 400, bad=range(220, 230))
    assert state(tmp_path).rollbacks[-1].skipped == 0
    assert "passes over" not in verdict(tmp_path)["message"]
